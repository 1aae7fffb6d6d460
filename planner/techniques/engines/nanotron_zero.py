"""nanotron's ZeRO-1: a part of each parameter on each rank, a ring pass for each."""

from planner.dataclasses import replace
from planner.techniques.engines import distributed_optimizer

ENTRY = replace(
    distributed_optimizer.ENTRY,
    name="nanotron-zero",
    cite="nanotron 0e0a27ea: src/nanotron/optim/zero.py",
    gathers_at_once=True,
    states="parameters",
)
