"""Whether sharded weights are gathered in 8 bit (qwZ of ZeRO++)."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="quantised_gathers",
    aliases=("qwz", "zero_quantized_weights"),
    about="whether sharded weights are gathered in 8 bit, with a scale for each block",
    cite="https://arxiv.org/abs/2306.10209, sec. 3.1, and DeepSpeed edaa7221, runtime/zero/config.py, "
    "zero_quantized_weights",
    values={"false": {"quantised_gathers": False}, "true": {"quantised_gathers": True}},
    scanned=("true",),
    numerics=True,
    evidence={"true": "ZeRO++ beside ZeRO-3 on 384 V100, with secondary shards and quantised gradients"},
)
