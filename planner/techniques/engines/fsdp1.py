"""PyTorch's first FSDP: the parameters of a layer as one flat one; DDP where nothing is sharded."""

from planner.techniques.engines._flat import flat_moments
from planner.techniques.engines._fsdp import ddp_moments
from planner.techniques.engines.family import Engine

TORCH_ADAM_SECONDS = 1.45e-9
"""Seconds of PyTorch's Adam on a host for one parameter: 1.39, 5.71 and 14.76 s for 1, 4 and 10 billion.

References
----------
.. [1] J. Ren et al., "ZeRO-Offload," arXiv:2101.06840, 2021, table 4.
"""

ENTRY = Engine(
    name="fsdp1",
    cite="PyTorch 2.13: torch/distributed/fsdp/_runtime_utils.py, _flat_param.py",
    whole=ddp_moments,
    sharded=flat_moments,
    lasting=False,
    at_rest=True,
    autocasts=True,
    pins="layers",
    host_adam_seconds=TORCH_ADAM_SECONDS,
)
