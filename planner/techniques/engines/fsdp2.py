"""PyTorch's FSDP2: each parameter cut by rows; DDP where nothing is sharded."""

from planner.dataclasses import replace
from planner.techniques.engines import fsdp1
from planner.techniques.engines._fsdp import fsdp_moments

ENTRY = replace(
    fsdp1.ENTRY,
    name="fsdp2",
    cite="PyTorch 2.13: torch/distributed/fsdp/_fully_shard",
    sharded=fsdp_moments,
    pads_rows=True,
    pins="parameters",
)
