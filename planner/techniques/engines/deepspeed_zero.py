"""DeepSpeed's ZeRO: flat buckets of gradients, weights gathered module by module.

Where the host steps, gradients that ranks share go there as they are reduced, and wait in 16 bit and in fp32
(``deepspeed/runtime/zero/stage3.py``: ``grad_partitions_flat_buffer`` and ``fp32_partitioned_groups_flat``).
"""

from planner.techniques.engines._zero3 import module_moments
from planner.techniques.engines.family import Engine
from planner.techniques.engines.zero_gradients import bucket_moments

ENTRY = Engine(
    name="deepspeed-zero",
    cite="DeepSpeed 0.19.8, deepspeed/runtime/zero: stage_1_and_2.py, stage3.py, partition_parameters.py",
    whole=bucket_moments,
    sharded=module_moments,
    lasting=False,
    hosts_gradients=True,
    host_copy_bytes=4.0,
    step_group=1e9,
    lays_gradients=True,
    keeps_bucket=True,
)
