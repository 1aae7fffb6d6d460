"""Optimizer states and step on the host, or a share: 16-bit gradients go down, new weights come up."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="optimizer",
    cite="arXiv:2101.06840",
    states="host",
    down_bytes=2.0,
    up_bytes=2.0,
    shared=True,
    aliases=("cpu",),
)
