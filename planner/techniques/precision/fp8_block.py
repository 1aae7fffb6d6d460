"""Linear layers in 8 bit with a scale for each 1 x 128 or 128 x 128 block."""

from planner.techniques.precision.family import Precision

ENTRY = Precision(
    name="fp8-block",
    cite="arXiv:2412.19437",
    linear="fp8_block",
    peak="fp8",
    activation="bf16",
    weight_copies_bytes=2.0,
    saved_input_bytes=1.0,
    training_casts=(2 + 2 * 1.0) / (2 + 1.0),
    instead="fp8",
    aliases=("fp8_block", "fp8-blockwise", "fp8-subchannel"),
)
