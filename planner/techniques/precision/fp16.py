"""Half precision with loss scaling."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="fp16",
    cite="arXiv:1710.03740",
    linear="fp16",
    peak="fp16",
    activation="fp16",
    weight_copies_bytes=0.0,
    saved_input_bytes=2.0,
    instead="bf16",
    aliases=("float16", "half"),
)
