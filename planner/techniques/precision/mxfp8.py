"""Linear layers in 8 bit with a shared exponent for each 32 elements."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="mxfp8",
    cite="arXiv:2310.10537",
    linear="mxfp8",
    peak="fp8",
    activation="bf16",
    weight_copies_bytes=2.0625,
    rests_alone=True,
    saved_input_bytes=1.03125,
    training_casts=(2 + 2 * 1.03125) / (2 + 1.03125),
    instead="fp8",
    aliases=(),
)
