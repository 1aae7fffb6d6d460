"""How what replicas exchange is made smaller, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

FULL: Final = 4.0
"""Size of a parameter or gradient in full precision. [byte/element]"""


@dataclass(frozen=True)
class Compression:
    """One way to make an exchange smaller.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line.
    cite : str
        Where it is described.
    about : str
        What goes over the link.
    sent_bytes : callable
        Size of a parameter on the wire, from the amount. [byte/element]
    penalty : str
        What it costs in learning, with its source.
    harmless : bool
        Whether nobody has seen it cost anything with changes or gradients of language models.
    sums : bool
        Whether partial sums can go round a ring; if not every replica gathers what all others send.
    feedback_copies : float
        Copies of the parameters in 4 bytes that keep what was not sent. [-]
    pass_bytes : float
        Bytes that packing and unpacking move in device memory for each parameter. [byte/element]
    amount : float, optional
        The number after the colon where none is given; None where it takes none.
    bounds : tuple of float
        The least and the largest of it.
    runners : mapping
        Runtimes that run it, and what it is there.
    """

    name: str
    cite: str
    about: str
    sent_bytes: Callable[[float], float]
    penalty: str
    harmless: bool = False
    sums: bool = True
    feedback_copies: float = 0.0
    pass_bytes: float = 0.0
    amount: float | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    runners: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packed:
    """A compression with its amount."""

    how: Compression
    amount: float = 0.0

    @property
    def sent_bytes(self) -> float:
        """Size of a parameter on the wire. [byte/element]"""
        return self.how.sent_bytes(self.amount)

    @property
    def text(self) -> str:
        """As on the command line."""
        if self.how.amount is None:
            return self.how.name
        if self.how.bounds[1] > 1:
            return f"{self.how.name}:{self.amount:.3g}"
        return f"{self.how.name}:{100 * self.amount:g}%"
