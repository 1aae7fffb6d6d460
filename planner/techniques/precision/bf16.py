"""bfloat16 throughout, with fp32 accumulation."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="bf16",
    cite="arXiv:1905.12322",
    linear="bf16",
    peak="bf16",
    activation="bf16",
    weight_copies_bytes=0.0,
    saved_input_bytes=2.0,
    aliases=("bfloat16",),
)
