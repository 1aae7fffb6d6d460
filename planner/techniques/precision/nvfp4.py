"""Linear layers in 4 bit with a scale for each 16 elements."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="nvfp4",
    cite="arXiv:2509.25149",
    linear="nvfp4",
    peak="nvfp4",
    activation="bf16",
    weight_copies_bytes=1.125,
    rests_alone=True,
    step_cast_bytes=2.0,
    saved_input_bytes=0.5625,
    training_casts=(2 + 2 + 2 * 0.5625) / (2 + 0.5625),
    instead="mxfp8",
    aliases=("fp4",),
)
