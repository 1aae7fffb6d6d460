"""DeepSpeed's ZeRO: flat buckets of gradients, weights gathered module by module.

Where the host steps, gradients that ranks share go there as they are reduced, and wait in 16 bit and in fp32
(``deepspeed/runtime/zero/stage3.py``: ``grad_partitions_flat_buffer`` and ``fp32_partitioned_groups_flat``).
"""

from planner.techniques.engines._gathering import gathering_moments
from planner.techniques.engines._lasting import lasting_moments
from planner.techniques.engines.family import Engine

ENTRY = Engine(
    name="deepspeed-zero",
    cite="DeepSpeed 0.19.8: deepspeed/runtime/zero/stage_1_and_2.py, partitioned_param_coordinator.py",
    whole=lasting_moments,
    sharded=gathering_moments,
    hosts_gradients=True,
    host_copy_bytes=4.0,
    step_group=1e9,
)
