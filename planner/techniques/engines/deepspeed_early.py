"""DeepSpeed's ZeRO to release 0.18.3: buckets are there before backward starts, and so at the loss.

https://github.com/deepspeedai/DeepSpeed/pull/7665 moved them from there to the first gradient.
"""

from planner.dataclasses import replace
from planner.techniques.engines import deepspeed_zero
from planner.techniques.engines._lasting import lasting_moments

ENTRY = replace(
    deepspeed_zero.ENTRY,
    name="deepspeed-early",
    cite="DeepSpeed 0.9.5, 0.18.3: deepspeed/runtime/zero/stage_1_and_2.py, backward",
    whole=lasting_moments,
    lasting=True,
    lays_gradients=False,
)
