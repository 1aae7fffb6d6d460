"""ZeRO stage 2: each rank keeps a part of the optimizer states and gradients."""

from planner.techniques.sharding.family import Sharding

ENTRY = Sharding(
    name="zero2",
    stage=2,
    cite="arXiv:1910.02054",
    shards_optimizer=True,
    shards_gradients=True,
    shards_parameters=False,
    aliases=("optim_grads",),
)
