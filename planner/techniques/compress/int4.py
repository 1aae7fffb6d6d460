"""Four bits, summed in full precision by the receiver."""

from planner.techniques.compress.family import Compression

ENTRY = Compression(
    name="int4",
    cite="arXiv:2501.18512",
    about="4 bits, E3M0 in the paper",
    sent_bytes=lambda amount: 0.5,
    penalty="none seen up to 1B (arXiv:2501.18512)",
    harmless=True,
    pass_bytes=9.0,
    aliases=("fp4",),
)
