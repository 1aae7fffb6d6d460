"""PatrickStar: weights and states in equal chunks, in host memory and what it lacks on the devices.

A gradient takes the place of its 16-bit weight, so that a parameter takes 14 bytes in all; Adam runs where
its chunk is, and all of it is priced as if that were the host.
"""

from planner.dataclasses import replace
from planner.techniques.engines import deepspeed_zero
from planner.techniques.engines._gathering import gathering_moments
from planner.techniques.engines._lasting import lasting_moments

ENTRY = replace(
    deepspeed_zero.ENTRY,
    name="patrickstar",
    cite="arXiv:2108.05818",
    whole=lasting_moments,
    sharded=gathering_moments,
    lasting=True,
    lays_gradients=False,
    keeps_bucket=False,
    host_copy_bytes=0.0,
    replaces_weights=True,
    pooled=True,
    runs=False,
)
