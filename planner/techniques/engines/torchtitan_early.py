"""FSDP2 as torchtitan called it to release 0.2.2; where nothing is sharded, DDP and autocast."""

from planner.dataclasses import replace
from planner.techniques.engines import torchtitan_fsdp2

ENTRY = replace(
    torchtitan_fsdp2.ENTRY,
    name="torchtitan-early",
    cite="torchtitan 0.2.2: models/llama3/infra/parallelize.py, apply_ddp; distributed/utils.py, "
    "maybe_enable_amp",
    wraps_whole=False,
    autocasts=True,
)
