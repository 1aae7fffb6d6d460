"""Optimizer states on the node's NVMe, stepped on the host tile by tile; weights stay on the device."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="optimizer-nvme",
    cite="arXiv:2104.07857",
    states="disk",
    down_bytes=2.0,
    up_bytes=2.0,
    searched=False,
)
