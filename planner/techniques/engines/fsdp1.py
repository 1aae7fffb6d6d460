"""PyTorch's first FSDP: the parameters of a layer as one flat one; DDP where nothing is sharded."""

from planner.techniques.engines._family import Engine
from planner.techniques.engines._fsdp import ddp_moments, fsdp_moments

ENTRY = Engine(
    name="fsdp1",
    cite="PyTorch 2.13: torch/distributed/fsdp/_runtime_utils.py, _flat_param.py",
    whole=ddp_moments,
    sharded=fsdp_moments,
    lasting=False,
    at_rest=True,
)
