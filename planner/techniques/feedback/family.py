"""How what was not sent comes to be sent later, and what that costs beside the compression."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import dataclass
from planner.formulas.low_communication import feedback_bytes

FULL: Final = 4.0
"""Size of a parameter or gradient in full precision. [byte/element]"""


@dataclass(frozen=True)
class Feedback:
    """One way to keep what a compression leaves out."""

    name: str
    """As after the plus sign on the command line."""
    cite: str
    """Where it is described."""
    about: str
    """What it keeps."""
    penalty: str
    """What is known of learning with it, with its source."""
    copies: float = 0.0
    """Copies of the parameters in 4 bytes that it keeps on the accelerators. [-]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def pass_bytes(self) -> float:
        """Bytes that it moves in device memory for each parameter of an exchange. [byte/element]"""
        return float(feedback_bytes(self.copies, FULL))
