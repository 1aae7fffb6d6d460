"""Megatron-core's distributed optimizer: one buffer of gradients, or weights gathered by layers."""

from planner.techniques.engines._gathering import gathering_moments
from planner.techniques.engines._lasting import lasting_moments
from planner.techniques.engines.family import Engine

ENTRY = Engine(
    name="distributed-optimizer",
    cite="Megatron-LM d98e8a64: megatron/core/distributed, megatron/core/optimizer/distrib_optimizer.py",
    whole=lasting_moments,
    sharded=gathering_moments,
    halves_masters=True,
)
