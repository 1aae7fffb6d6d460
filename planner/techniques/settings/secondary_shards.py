"""Whether the ranks of a node share a second copy of sharded weights (hpZ of ZeRO++)."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="secondary_shards",
    aliases=("hpz", "zero_hpz_partition_size"),
    about="whether the ranks of a node share a second copy of weights that are sharded over several nodes, "
    "from which backward gathers them without the network",
    cite="https://arxiv.org/abs/2306.10209, sec. 3.2, and DeepSpeed edaa7221, runtime/zero/config.py, "
    "zero_hpz_partition_size",
    values={"none": {"secondary_shards": False}, "node": {"secondary_shards": True}},
    scanned=("node",),
    evidence={"node": "ZeRO++ beside ZeRO-3 on 384 V100, with quantised weights and gradients"},
)
