"""The projectors alone, between an encoder and a language model that are frozen: alignment before tuning.

Gradients run back through the language model to reach them; no weight of it has one.
"""

from planner.techniques.methods.family import TUNING_BATCH, Method, no_adapter_params

ENTRY = Method(
    name="projector",
    cite="arXiv:2304.08485",
    frozen_weight_bytes=2.0,
    dequantise_bytes=0.0,
    adapter_params=no_adapter_params,
    global_batch=TUNING_BATCH,
)
