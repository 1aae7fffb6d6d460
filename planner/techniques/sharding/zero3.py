"""ZeRO stage 3 and FSDP: parameters too are spread, and gathered layer by layer."""

from planner.techniques.sharding.family import Sharding

ENTRY = Sharding(
    name="zero3",
    stage=3,
    cite="arXiv:1910.02054",
    shards_optimizer=True,
    shards_gradients=True,
    shards_parameters=True,
    aliases=("fsdp", "fsdp2", "optim_grads_params"),
)
