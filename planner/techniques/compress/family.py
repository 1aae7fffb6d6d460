"""How what replicas exchange is made smaller, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.dataclasses import dataclass, field
from planner.techniques.feedback import FEEDBACKS, Feedback
from planner.techniques.feedback.family import FULL

__all__ = ["FULL", "Compression", "Packed"]


@dataclass(frozen=True)
class Compression:
    """One way to make an exchange smaller."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    about: str
    """What goes over the link."""
    sent_bytes: Callable[[float], float]
    """Size of a parameter on the wire, from the amount. [byte/element]"""
    penalty: str
    """What it costs in learning, with its source."""
    harmless: bool = False
    """Whether nobody has seen it cost anything with changes or gradients of language models."""
    sums: bool = True
    """Whether partial sums can go round a ring; if not every replica gathers what all others send."""
    feedback: str = "none"
    """What keeps what was not sent, by name, where nobody asks for another."""
    pass_bytes: float = 0.0
    """Bytes that packing and unpacking move in device memory for each parameter, feedback aside.
    [byte/element]"""
    amount: float | None = None
    """The number after the colon where none is given; None where it takes none."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The least and the largest of it."""
    runners: Mapping[str, str] = field(default_factory=dict)
    """Runtimes that run it, and what it is there."""
    aliases: tuple[str, ...] = ()
    """Other names."""


@dataclass(frozen=True)
class Packed:
    """A compression with its amount, and what keeps what it does not send: its own where not asked."""

    how: Compression
    amount: float = 0.0
    asked: Feedback | None = None

    @property
    def feedback(self) -> Feedback:
        """What keeps what is not sent."""
        return self.asked or FEEDBACKS[self.how.feedback]

    @property
    def pass_bytes(self) -> float:
        """Bytes that packing, unpacking and feedback move for each parameter. [byte/element]"""
        return self.how.pass_bytes + self.feedback.pass_bytes

    @property
    def sent_bytes(self) -> float:
        """Size of a parameter on the wire. [byte/element]"""
        return self.how.sent_bytes(self.amount)

    @property
    def text(self) -> str:
        """As on the command line."""
        kept = f"+{self.asked.name}" if self.asked is not None else ""
        if self.how.amount is None:
            return f"{self.how.name}{kept}"
        if self.how.bounds[1] > 1:
            return f"{self.how.name}:{self.amount:.3g}{kept}"
        return f"{self.how.name}:{100 * self.amount:g}%{kept}"
