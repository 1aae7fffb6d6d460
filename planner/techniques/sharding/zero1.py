"""ZeRO stage 1: each rank keeps a part of the optimizer states."""

from planner.techniques.sharding.family import Sharding

ENTRY = Sharding(
    name="zero1",
    stage=1,
    cite="arXiv:1910.02054",
    shards_optimizer=True,
    shards_gradients=False,
    shards_parameters=False,
    aliases=("distributed-optimizer", "optim"),
)
