"""All weights are trained."""

from planner.fields import default
from planner.techniques.methods.family import Method, no_adapter_params

ENTRY = Method(
    name="full",
    cite="arXiv:1810.04805",
    frozen_weight_bytes=0.0,
    dequantise_bytes=0.0,
    adapter_params=no_adapter_params,
    global_batch=default("global_batch"),
)
