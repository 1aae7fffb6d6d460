"""The user's variables: what only the user knows, and what a user may set otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

VARIABLES: Final = {
    "DATA_PATH": "the training data as the runtime reads it",
    "TOKENIZER_PATH": "the name or folder of the tokenizer",
    "OUTPUT_DIR": "a folder for checkpoints and logs",
    "AUTOENCODER_PATH": "the weights of the autoencoder of images",
    "T5_PATH": "the name or folder of the text encoder T5",
    "CLIP_PATH": "the name or folder of the text encoder CLIP",
    "CHECKPOINT": "the folder of the weights to start from",
    "NVME_PATH": "a folder on the node's own disks",
    "ACCOUNT": "the account that the cluster charges",
    "PARTITION": "the partition or queue to run in",
    "IMAGE": "the container image to run in",
    "SMOKE": "1 for twenty steps on made-up data, without checkpoints",
    "TRAIN_STEPS": "optimizer steps",
    "LEARNING_RATE": "the highest learning rate",
    "MIN_LEARNING_RATE": "the learning rate at the end",
    "WARMUP_STEPS": "steps in which the learning rate rises",
    "DECAY_STEPS": "the step at which the learning rate is lowest",
    "SEED": "the seed of weights and data",
    "LOG_INTERVAL": "steps from one line of the log to the next",
    "EVAL_INTERVAL": "steps from one evaluation to the next",
    "EVAL_STEPS": "batches of an evaluation; 0 for none",
    "SAVE_INTERVAL": "steps from one checkpoint to the next",
    "RESTARTS": "times that the job starts again by itself after a failure",
    "LOCAL_DIR": "a folder in each node's memory for copies of checkpoints",
    "TORCHFT_LIGHTHOUSE": "the address of torchft's lighthouse, the same for all replicas",
    "NODE_RANK": "the number of this node, from 0, counted island after island",
    "TIMEOUT_MINUTES": "minutes after which a collective counts as stuck",
    "MINUTES": "minutes after which to save and stop",
    "TENSORBOARD_DIR": "a folder for TensorBoard",
    "WANDB_PROJECT": "the project in Weights & Biases",
    "DATA_CACHE": "a folder for the index or the cache of the data",
    "TIME_LIMIT": "the time that the job may take",
    "QOS": "the quality of service",
    "RESERVATION": "the reservation to run in",
    "CHAIN": "how many jobs follow one another, each from the last one's checkpoint",
    "QUEUE": "the Kueue queue to wait in",
    "PULL_SECRET": "the secret with which images are pulled",
    "RDMA_RESOURCE": "the resource of network devices, such as rdma/hca",
    "RDMA_COUNT": "network devices of a node",
    "VOLUME": "the volume claim that holds the folders",
    "HOST_PATH": "the folder of the nodes that holds the folders",
    "BUCKET": "the bucket that holds the folders, such as s3://name",
    "MOUNT": "where the nodes see it",
    "STORAGE_PATH": "the folder or bucket where Ray keeps results, OUTPUT_DIR otherwise",
}
"""The variables that launch files take from the environment, with what each means."""

WITHOUT: Final = {
    "MINUTES": "it does not save and stop by itself",
    "EVAL_INTERVAL": "it evaluates nothing",
    "EVAL_STEPS": "it evaluates nothing",
    "TENSORBOARD_DIR": "it writes nothing for TensorBoard",
    "WANDB_PROJECT": "it writes nothing for Weights & Biases",
    "TIMEOUT_MINUTES": "its limit stands in its code",
    "MIN_LEARNING_RATE": "its learning rate ends where its own schedule does",
    "DECAY_STEPS": "its learning rate is lowest at the end",
    "DATA_CACHE": "it makes no index, and HF_DATASETS_CACHE says where the datasets library keeps data",
}
"""Why a variable of a run has no effect on a runtime that does not take it."""


def without_effect(known: Iterable[str]) -> dict[str, str]:
    """Return the variables of a run that are not among the ``known`` ones of a command, and why."""
    return {name: why for name, why in WITHOUT.items() if name not in set(known)}


PATHS: Final = (
    "DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR", "CHECKPOINT", "DATA_CACHE", "TENSORBOARD_DIR", "NVME_PATH",
    "AUTOENCODER_PATH",
)  # fmt: skip
"""Variables that name files or folders; DATA_PATH may hold several."""

WHOLE: Final = re.compile(r"\$\{(" + "|".join([*VARIABLES, "HERE"]) + r")\}")
"""A variable's value, or the folder of the files, inside an argument."""

SPREAD: Final = re.compile(r"\$\{(" + "|".join(VARIABLES) + r")\[@\]\}")
"""An argument that is a variable's words, such as the weights and paths of a blend of data: as many arguments
as there are words, or one where it is the path of something that exists."""
