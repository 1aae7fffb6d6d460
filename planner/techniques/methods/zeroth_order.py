"""Zeroth order: two forward passes with weights moved either way along a seed's direction, and no backward.

Nothing has a gradient or a state, and nothing waits for backward; all weights learn. Where they rest on the
host, each block comes up, is stepped and run twice, and goes down (ZO2, arXiv:2503.12668); ranks that share
them bring a part each over their own links (DistZO2, arXiv:2507.03211).
"""

from planner.techniques.methods.family import TUNING_BATCH, Method, no_adapter_params

ENTRY = Method(
    name="zeroth-order",
    cite="arXiv:2503.12668",
    frozen_weight_bytes=2.0,
    dequantise_bytes=0.0,
    adapter_params=no_adapter_params,
    global_batch=TUNING_BATCH,
    forwards=2.0,
    learns="OPT-13B within 1% (absolute) of exact fine-tuning on 7 of 11 tasks, after many times the steps "
    "(MeZO, arXiv:2305.17333); no pretraining is known",
    aliases=("zo", "mezo", "zo2", "distzo2"),
)
