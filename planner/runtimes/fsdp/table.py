"""Keys of an Accelerate YAML that stand for one option or trait each: written into it, read by ``--from``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes.keys import FileKey

MESH: Final = "parallelism_config"
SHARDS: Final = "fsdp_config"
"""The sections of degrees and of sharding; each of their keys begins with the section's own word."""

SIZES: Final = {
    axis: f"{MESH}.parallelism_config_{axis}_size" for axis in ("dp_replicate", "dp_shard", "tp", "cp", "sp")
}
"""The key of each axis of the mesh."""

OPTIONS: Final[Mapping[str, FileKey]] = {
    "gpus": FileKey("num_processes"),
    "tp": FileKey(SIZES["tp"]),
    "cp": FileKey(SIZES["cp"]),
    "cp_method": FileKey(
        f"{MESH}.parallelism_config_cp_comm_strategy", {"all-gather": "allgather", "ring": "alltoall"}
    ),
    "zero": FileKey(f"{SHARDS}.fsdp_reshard_after_forward", {3: True, 2: False}),
    "recompute": FileKey(f"{SHARDS}.fsdp_activation_checkpointing", {"none": False, "full": True}),
    "offload": FileKey(f"{SHARDS}.fsdp_offload_params", {"none": False, "weights": True}),
}
"""The key of each option. PyTorch's ``alltoall`` passes keys and values to the next rank: it is the ring."""

COMPILED: Final = FileKey("dynamo_config.dynamo_backend", {True: "INDUCTOR"})
"""The trait ``compiled``."""

FLAGS: Final = {
    "micro_batch": "--per_device_train_batch_size",
    "accumulation": "--gradient_accumulation_steps",
}
"""Arguments of the training script, as transformers names them."""

VARIABLES: Final = {"fsdp_transformer_layer_cls_to_wrap": "fsdp_transformer_cls_to_wrap"}
"""Keys whose variable of the environment, which ``accelerate launch`` exports, has another name."""
