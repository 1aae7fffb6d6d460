"""FLUX.1 on torchtitan: its rules, and a module that says image, text and data of one plan.

References
----------
.. [1] torchtitan b5bcd76c, ``torchtitan/models/flux``: ``parallelize.py`` (every block under FSDP, all of
   them checkpointed or none), ``trainer.py`` (one pass a step, encoders in it), ``sharding.py`` (keys and
   values are gathered along the sequence).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from planner.errors import UnsupportedPlan
from planner.inputs.build import build
from planner.inputs.hf_fields import Config
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job, Runtime
from planner.runtimes.offered import (
    dtype_rules,
    exactly,
    fits_model,
    mesh_shard_rule,
    technique_rules,
    whole_offload_rules,
)
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.torchtitan.choice import STEP_LINE, WHERE_SET, TitanChoice
from planner.runtimes.torchtitan.current import MODULE, PRODUCTION, VARIABLES, flags, run_data
from planner.runtimes.torchtitan.model_data import literal
from planner.runtimes.torchtitan.releases import is_old
from planner.runtimes.torchtitan.rules import DTYPES, dtype_rule
from planner.runtimes.training_run import run_of

PATCH = 16
"""Pixels along one side of a token: eight of the autoencoder, two of a patch."""


def known_record(text_tokens: object) -> dict[str, Any]:
    """Return the fields of torchtitan's FLUX.1, which has no embedder of a guidance, with such text."""
    # With all families beside it: only where files are written.
    from planner.inputs.diffusers.flux import ENTRY

    record = ENTRY.record(Config({}, ENTRY.defaults, "FLUX.1"))
    record["diffusion"] |= {"text_tokens": text_tokens}
    return record


@cache
def _known_model(text_tokens: int) -> ModelSpec:
    return build(ModelSpec, known_record(text_tokens) | {"name": "FLUX.1"}, "FLUX.1")


def missing_parts(model: ModelSpec) -> tuple[str, ...]:
    """Return what of a diffusion transformer torchtitan's FLUX.1 has not."""
    text = model.diffusion.text_tokens if model.diffusion else 0
    known = _known_model(text)
    same = all(getattr(model, part) == getattr(known, part) for part in ("blocks", "layers", "diffusion"))
    return () if same else ("a guidance embedder, or sizes, that torchtitan's FLUX.1 does not have",)


def side(job: Job) -> float:
    """Return the tokens along one side of a square image. [-]"""
    text = job.model.diffusion.text_tokens if job.model.diffusion else 0
    return math.sqrt(max(job.workload.seq_len - text, 0))


def flux_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a plan must keep to train FLUX.1 on torchtitan."""
    work, long = job.workload, side(job)
    nearest = max(1, round(long)) ** 2 + work.seq_len - round(long**2)
    return [
        *technique_rules(plan, job, runtime),
        *dtype_rules(work, DTYPES),
        *whole_offload_rules(plan),
        dtype_rule(work),
        fits_model("model-in-torchtitan", missing_parts(job.model), "--runtime fsdp, for a price alone"),
        mesh_shard_rule(plan),
        exactly("flux-is-sharded", "zero", plan.zero, 3.0, "every block is gathered and let go"),
        exactly("flux-in-one-pass", "micro-batches", plan.num_microbatches, 1.0, "no gradients add up"),
        exactly("no-stages-without-pipeline", "vpp", plan.vpp, 1.0, "there is no pipeline"),
        Rule(
            "flux-checkpoints-all",
            plan.recompute in ("none", "full"),
            lambda: (f"recompute {plan.recompute}", "none or full: every block, or no block", "full"),
        ),
        Rule(
            "flux-in-16-bit",
            work.precision == "bf16",
            lambda: (f"precision {work.precision}", "bf16: no other is written for FLUX.1", "bf16"),
        ),
        Rule(
            "images-are-square",
            np.greater(long, 0) & (long == int(long)),
            lambda: (f"seq_len {work.seq_len}", "the tokens of a square image, and its text", f"{nearest}"),
        ),
    ]


def flux_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return the command line and the module of a scalar plan.

    Raises `UnsupportedPlan` if the release is one of TOML files.
    """
    if is_old(version):
        raise UnsupportedPlan(f"no files start {job.model.name} on release {version}; nearest: the newest")
    choice = TitanChoice(bool(changes.get("compiled", True)))
    return Command(
        program=("torchtitan.train", "--module", MODULE, *flags(plan, job, choice)),
        environment=GROWING_SEGMENTS,
        production=_without(PRODUCTION, "--hf_assets_path"),
        no_smoke="images and text are encoded in each step, by encoders that have to be there",
        closing=(f"activation-checkpoint:{plan.recompute}",),
        production_needs=("DATA_PATH", "AUTOENCODER_PATH", "OUTPUT_DIR"),
        defaults=run_of(job).defaults(*(name for name in VARIABLES if name[:5] != "EVAL_")) | ENCODERS,
        where_set=WHERE_SET,
        step_line=STEP_LINE,
        module=True,
        files={f"{MODULE}.py": _module_text(job)},
        notes=NOTES,
    )


ENCODERS = {
    "T5_PATH": "google/t5-v1_1-xxl",
    "CLIP_PATH": "openai/clip-vit-large-patch14",
}
"""Text encoders and their tokenizers, unless the user names folders of them."""

NOTES = (
    "Every rank also holds CLIP, the autoencoder and its shard of T5-XXL, and each step runs them forward on "
    "its images and text. Neither their time nor their memory is priced.",
    "DATA_PATH is a folder or the name of a data set of pairs (jpg, txt) as CC12M has them; AUTOENCODER_PATH "
    "is FLUX.1's ae.safetensors.",
    "Start it again with the same OUTPUT_DIR and it goes on from the last checkpoint.",
)


def _without(arguments: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return arguments without one and its value."""
    place = arguments.index(name)
    return arguments[:place] + arguments[place + 2 :]


def _module_text(job: Job) -> str:
    diffusion = job.model.diffusion
    text = diffusion.text_tokens if diffusion else 0
    data = {"name": job.model.name, "family": "flux", "image": PATCH * int(side(job)), "text_tokens": text}
    return HEAD + literal("MODEL", data) + run_data(run_of(job)) + TAIL


HEAD = '''"""FLUX.1 for one plan, for torchtitan at commit b5bcd76c (2026-08-21).

Start it with: -m torchtitan.train --module titan_plan --config train ...
"""

import os
from planner.dataclasses import replace

from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.data import GrainDataLoader
from torchtitan.components.loss import MSELoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.config import CommConfig
from torchtitan.models.flux import model_registry
from torchtitan.models.flux.configs import FluxEncoderConfig
from torchtitan.models.flux.flux_datasets import DATASETS, FluxCollator
from torchtitan.models.flux.tokenizer import FluxTokenizerContainer
from torchtitan.models.flux.trainer import FluxTrainer

'''

TAIL = '''

def told(name):
    """Return a number of the run: the user's variable, or the plan's."""
    return type(RUN[name])(os.environ.get(name) or RUN[name])


def dataset():
    """Pairs of images and texts, each image cut to the plan's size."""
    known = DATASETS["cc12m-wds"]
    source = replace(known.source, path=os.environ["DATA_PATH"])
    return replace(known, source=source, processor=replace(known.processor, img_size=MODEL["image"]))


def train():
    seconds = int(60 * told("TIMEOUT_MINUTES"))
    t5, clip = os.environ["T5_PATH"], os.environ["CLIP_PATH"]
    return FluxTrainer.Config(
        loss=MSELoss.Config(),
        tokenizer=FluxTokenizerContainer.Config(
            t5_tokenizer_path=t5, clip_tokenizer_path=clip, max_t5_encoding_len=MODEL["text_tokens"]
        ),
        encoder=FluxEncoderConfig(
            t5_encoder=t5, clip_encoder=clip, autoencoder_path=os.environ["AUTOENCODER_PATH"]
        ),
        model_spec=model_registry("flux-dev"),
        optimizer=default_adamw(lr=told("LEARNING_RATE"), **OPTIMIZER),
        lr_scheduler=LRSchedulersContainer.Config(
            decay_type="cosine", min_lr_factor=told("MIN_LEARNING_RATE") / told("LEARNING_RATE")
        ),
        metrics=MetricsProcessor.Config(log_freq=1),
        comm=CommConfig(init_timeout_seconds=seconds, train_timeout_seconds=seconds),
        dataloader=GrainDataLoader.Config(
            dataset=dataset(),
            collator=FluxCollator.Config(),
            streaming_shuffle_buffer_size=128,
            seed=told("SEED"),
        ),
        checkpoint=CheckpointManager.Config(last_save_model_only=False),
    )
'''
