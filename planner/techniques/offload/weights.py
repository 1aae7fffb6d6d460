"""Weights, gradients and optimizer states on the host: each part of the weights comes up to be gathered."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="weights",
    cite="arXiv:2104.07857",
    states="host",
    weights="host",
    down_bytes=2.0,
    up_bytes=0.0,
    aliases=("zero3-offload", "parameters"),
)
