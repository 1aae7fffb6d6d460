"""Plain data parallelism: every rank holds everything."""

from planner.techniques.sharding.family import Sharding

ENTRY = Sharding(
    name="zero0",
    stage=0,
    cite="arXiv:1910.02054",
    shards_optimizer=False,
    shards_gradients=False,
    shards_parameters=False,
    aliases=("ddp", "no_shard"),
)
