"""The largest values of each chunk in two bits with their places, the rest kept for the next exchange."""

from typing import Final

from planner.formulas.low_communication import sparse_bytes
from planner.techniques.compress.family import Compression

VALUE: Final = 0.25
"""Size of a value. [byte/element]"""
PLACE: Final = 1.5
"""Size of a place in a chunk of 4,096. [byte/element]"""


def largest_bytes(amount: float) -> float:
    """Return the size of a parameter on the wire, of which a share goes. [byte/element]"""
    return float(sparse_bytes(amount, VALUE, PLACE))


ENTRY = Compression(
    name="topk",
    cite="arXiv:2508.15706",
    about="2-bit values and 12-bit places of the largest",
    sent_bytes=largest_bytes,
    penalty="unknown against data parallelism (arXiv:2508.15706)",
    sums=False,
    feedback="error-feedback",
    pass_bytes=16.0,
    amount=0.01,
)
