"""DeepSpeed's ZeRO: flat buckets of gradients, weights gathered module by module."""

from planner.techniques.engines._family import Engine
from planner.techniques.engines._gathering import gathering_moments
from planner.techniques.engines._lasting import lasting_moments

ENTRY = Engine(
    name="deepspeed-zero",
    cite="DeepSpeed 0.19.8: deepspeed/runtime/zero/stage_1_and_2.py, partitioned_param_coordinator.py",
    whole=lasting_moments,
    sharded=gathering_moments,
)
