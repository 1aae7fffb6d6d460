"""DeepSpeed's ZeRO: flat buckets of gradients, weights gathered module by module."""

from planner.techniques.engines._family import Engine
from planner.techniques.engines._gathering import gathering_moments
from planner.techniques.engines._lasting import lasting_moments

ENTRY = Engine(
    name="deepspeed-zero",
    about="DeepSpeed's ZeRO: flat buckets of gradients, weights gathered module by module",
    cite="DeepSpeed: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, partitioned_param_coordinator.py",
    whole=lasting_moments,
    sharded=gathering_moments,
)
