"""Eight bits with scales, packed anew at each hop of the ring; torchft's ``should_quantize`` sends float8."""

from planner.techniques.compress.family import Compression

ENTRY = Compression(
    name="int8",
    cite="arXiv:2412.01152",
    about="8 bits with a scale for each row",
    sent_bytes=lambda amount: 1.0,
    penalty="none seen at 10B (arXiv:2412.01152)",
    harmless=True,
    pass_bytes=10.0,
    runners={"torchtitan": "should_quantize"},
    aliases=("fp8",),
)
