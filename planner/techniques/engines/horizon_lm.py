"""Horizon-LM: the host holds everything, and the device has buffers for two layers.

Weights and gradients in 16 bit and moments in fp32, without master weights (``--master-dtype bf16``): 12
bytes for a parameter, which may fill nearly all of a host's memory (120 B in 1.5 TB).
"""

from planner.techniques.engines._fsdp import fsdp_moments, whole_moments
from planner.techniques.engines.family import Engine

ENTRY = Engine(
    name="horizon-lm",
    cite="arXiv:2602.04816",
    whole=whole_moments,
    sharded=fsdp_moments,
    lasting=False,
    hosts_gradients=True,
    host_share=0.97,
    runs=False,
)
