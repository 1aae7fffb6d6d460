"""Whether gradients of sharded weights are reduced in 4 bit (qgZ of ZeRO++)."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="quantised_reductions",
    aliases=("qgz", "zero_quantized_gradients"),
    about="whether gradients of sharded weights are reduced in 4 bit, by an all-to-all inside each node and "
    "one between nodes",
    cite="https://arxiv.org/abs/2306.10209, sec. 3.3, and DeepSpeed edaa7221, runtime/zero/config.py, "
    "zero_quantized_gradients",
    values={"false": {"quantised_reductions": False}, "true": {"quantised_reductions": True}},
    scanned=("true",),
    numerics=True,
    evidence={"true": "ZeRO++ beside ZeRO-3 on 384 V100, with secondary shards and quantised weights"},
)
