"""What a Megatron-LM script shards: its flags, or the JSON of Megatron-DeepSpeed, decide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planner.inputs.yaml_file import read_json
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_lm.table import SHARDING

LAYER_WISE: Final = "dist_"
"""Start of the older names of optimizers whose states are shared out by whole layers: ``dist_muon``
(Megatron-LM d98e8a64, ``megatron/core/optimizer/__init__.py``).
"""
STAGES: Final = {theirs: str(stage) for stage, theirs in SHARDING.items()} | {"no_shard": "0", "optim": "1"}


BF16: Final = "zero_optimization.stage 0 with bf16: DeepSpeed's BF16_Optimizer shards the states, as ZeRO-1"
"""Of pipelines, which Megatron-DeepSpeed's models are unless a flag says otherwise.

Source: DeepSpeed 0.19.8, deepspeed/runtime/engine.py, ``_do_optimizer_sanity_check``, and bf16_optimizer.py.
"""


def say_zero(sheet: Sheet) -> None:
    """Say what is sharded: as DeepSpeed's JSON has it, by one of two FSDPs, or the optimizer."""
    strategy = str(sheet.take("--data-parallel-sharding-strategy") or "no_shard")
    sharded = sheet.has("--use-megatron-fsdp", "--use-custom-fsdp")
    whole_layers = str(sheet.values.get("--optimizer")).startswith(LAYER_WISE)
    distributed = sheet.has("--use-distributed-optimizer") or whole_layers
    if _by_deepspeed(sheet):
        return
    if sharded:
        keys = ("--data-parallel-sharding-strategy", "--use-megatron-fsdp")
        sheet.say("zero", STAGES.get(strategy, strategy), *keys)
    elif sheet.has("--use-torch-fsdp2"):
        sheet.say("zero", "3", "--use-torch-fsdp2")
    else:
        sheet.say("zero", "1" if distributed else "0", "--use-distributed-optimizer")


def _by_deepspeed(sheet: Sheet) -> bool:
    """Say what Megatron-DeepSpeed shards, which its JSON decides; return whether DeepSpeed trains."""
    stage = sheet.take("--zero-stage")
    if not sheet.has("--deepspeed", "--deepspeed_config"):
        return False
    name = str(sheet.take("--deepspeed_config") or "")
    file = find_beside(Path(name), Path(sheet.where)) if name.endswith(".json") else None
    zero = read_json(file).get("zero_optimization", {}) if file is not None else None
    if not isinstance(zero, Mapping):
        sheet.say("zero", stage or "0", "--zero-stage")
        sheet.notes.append("Megatron-DeepSpeed: priced as Megatron-LM, its DeepSpeed file is not read")
        return True
    level = zero.get("stage", 0)
    if level == 0 and sheet.has("--bf16") and not sheet.has("--no-pipeline-parallel"):
        level = 1
        sheet.notes.append(BF16)
    sheet.say("zero", level, "--deepspeed_config", "--zero-stage")
    hosted = zero.get("offload_optimizer")
    if isinstance(hosted, Mapping) and hosted.get("device") == "cpu":
        sheet.say("offload", "optimizer", "--deepspeed_config")
    sheet.notes.append(f"Megatron-DeepSpeed: priced as Megatron-LM; ZeRO and offload from {file}")
    return True
