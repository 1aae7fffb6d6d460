"""The largest DCT coefficients of each chunk of 64 x 64, with their places; the rest stays local."""

from typing import Final

from planner.formulas.low_communication import sparse_bytes
from planner.techniques.compress.family import Compression

CHUNK: Final = 64.0
"""Side of a chunk. [-]"""


def coefficient_bytes(amount: float) -> float:
    """Return the size of a parameter on the wire: so many of a chunk's, in 4 bytes each, with places of 4."""
    return float(sparse_bytes(amount / (CHUNK * CHUNK), 4.0, 4.0))


ENTRY = Compression(
    name="dct",
    cite="arXiv:2502.06728",
    about="4-byte values and places of the largest coefficients of a chunk of 64 x 64",
    sent_bytes=coefficient_bytes,
    penalty="unknown (arXiv:2502.06728)",
    sums=False,
    pass_bytes=32.0,
    amount=32.0,
    bounds=(0.0, 4096.0),
)
