"""Linear layers in 8 bit with one scale for each tensor; weights keep a copy and its transpose."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="fp8",
    cite="arXiv:2209.05433",
    linear="fp8",
    peak="fp8",
    activation="bf16",
    weight_copies_bytes=2.0,
    rests_alone=True,
    step_cast_bytes=2.0,
    either_layout=True,
    saved_input_bytes=1.0,
    instead="bf16",
    aliases=("fp8-tensorwise", "fp8-current"),
)
