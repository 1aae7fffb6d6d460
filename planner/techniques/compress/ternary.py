"""Minus one, nought or one times a scale for each layer; sums of them grow, so they are gathered."""

from planner.techniques.compress.family import Compression

ENTRY = Compression(
    name="ternary",
    cite="arXiv:1705.07878",
    about="2 bits, the last layer in full",
    sent_bytes=lambda amount: 0.25,
    penalty="GoogLeNet top-5 89.00 to 86.47 with 8 workers (arXiv:1705.07878); unknown for language models",
    sums=False,
    pass_bytes=8.5,
)
