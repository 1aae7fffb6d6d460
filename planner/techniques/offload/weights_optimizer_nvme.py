"""Weights on the host, optimizer states on the node's NVMe, stepped on the host tile by tile."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="weights-optimizer-nvme",
    cite="arXiv:2104.07857",
    states="disk",
    weights="host",
    down_bytes=2.0,
    up_bytes=0.0,
    searched=False,
)
