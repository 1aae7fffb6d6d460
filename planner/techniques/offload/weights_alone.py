"""Weights on the host, fetched for every gather; optimizer states and step stay on the device."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="weights-alone",
    cite="arXiv:2104.07857",
    states="device",
    weights="host",
    down_bytes=2.0,
    up_bytes=0.0,
    searched=False,
    aliases=("parameters-alone",),
)
