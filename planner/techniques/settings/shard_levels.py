"""How far weights, gradients and optimizer states are spread: all alike, or each over a level of links."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="shard_levels",
    aliases=("three_level", "hierarchical_partitioning"),
    about="whether sharded weights rest in the dies of a module (in a node, where modules are single dies), "
    "and gradients in a node, while optimizer states are spread over all ranks: weights cross nodes once in "
    "a step, not in each pass",
    cite="https://arxiv.org/abs/2501.04266",
    values={"one": {"shard_levels": False}, "three": {"shard_levels": True}},
)
