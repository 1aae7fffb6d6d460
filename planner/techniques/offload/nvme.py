"""Weights and optimizer states on the node's NVMe, with pinned buffers on the host (ZeRO-Infinity)."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="nvme",
    cite="arXiv:2104.07857",
    states="disk",
    weights="disk",
    down_bytes=2.0,
    up_bytes=0.0,
    searched=False,
    aliases=("zero-infinity", "infinity"),
)
