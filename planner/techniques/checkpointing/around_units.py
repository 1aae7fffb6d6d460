"""A reentrant one around the units that FSDP shards, each of whose calls gathers the unit's weights."""

from dataclasses import replace

from planner.techniques.checkpointing import reentrant

ENTRY = replace(
    reentrant.ENTRY,
    name="around-units",
    cite="PyTorch 2.13: torch/distributed/fsdp/_runtime_utils.py, _pre_forward_unshard",
    gathers=True,
)
