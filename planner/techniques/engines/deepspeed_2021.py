"""DeepSpeed's ZeRO of 2021: a rank's part of the gradients of sharded weights is made in backward.

https://github.com/deepspeedai/DeepSpeed/pull/1453, of January 2022, gave it a buffer that is never freed.
"""

from planner.dataclasses import replace
from planner.techniques.engines import deepspeed_early
from planner.techniques.engines._zero3 import module_moments
from planner.techniques.engines.family import Moments, Step


def made_moments(step: Step) -> Moments:
    """Return the moments of sharded weights, with the gradients that are there at each."""
    first, *later = module_moments(step)
    rest = step.gradients, *(step.earlier_gradients for _ in later)
    return tuple(
        replace(one, size=one.size + made, gradients=made)
        for one, made in zip((first, *later), rest, strict=True)
    )


ENTRY = replace(
    deepspeed_early.ENTRY,
    name="deepspeed-2021",
    cite="DeepSpeed 0.3.13: deepspeed/runtime/zero/stage3.py, backward and partition_previous_reduced_grads",
    sharded=made_moments,
    keeps_bucket=False,
)
