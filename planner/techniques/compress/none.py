"""No compression: parameters, changes or gradients in full precision."""

from planner.techniques.compress.family import FULL, Compression

ENTRY = Compression(
    name="none",
    cite="arXiv:2311.08105",
    about="32 bits",
    sent_bytes=lambda amount: FULL,
    penalty="none",
    harmless=True,
    runners={"torchtitan": ""},
)
