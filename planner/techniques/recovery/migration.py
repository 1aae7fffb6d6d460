"""A spare accelerator takes place and state of the one that fails, and training goes on at that step."""

from planner.techniques.recovery.family import WATCHED, Recovery, needs_replicas

ENTRY = Recovery(
    name="migration",
    cite="https://clockwork.io/blog/keeping-distributed-training-running-through-failures",
    level="peers",
    pause=2 * WATCHED,
    faults=needs_replicas,
    runner=False,
    aliases=("live-migration", "torchpass"),
)
