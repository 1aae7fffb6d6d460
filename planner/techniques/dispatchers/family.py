"""Who sends tokens to their experts: what travels, and what that takes of device and host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from planner.dataclasses import dataclass
from planner.numeric import Num

Sent = tuple[Callable[..., Num], Mapping[str, Num]]
"""The formula of a message's seconds, and what it is asked beside ranks, stride and tiers."""


class Sending(Protocol):
    """Tells what one dispatch or combine sends.

    ``nbytes`` are the tokens of a rank, one copy of each [byte], ``copies`` the experts of a token, of so
    many ``experts`` on ``ranks``, and ``neighbours`` whether a token's experts stand beside each other. [-]
    """

    def __call__(self, nbytes: Num, copies: Num, experts: int, ranks: Num, neighbours: bool, /) -> Sent: ...


@dataclass(frozen=True)
class Dispatcher:
    """One way to send tokens to their experts and back."""

    name: str
    """As in ``--set dispatcher=NAME``."""
    cite: str
    """Where it was read."""
    sent: Sending
    """What a dispatch or a combine sends, and how long that takes."""
    own_kernels: bool = False
    """Whether kernels of its own send, from buffers of their own, on multiprocessors that compute no more."""
    sums: bool = False
    """Whether a token comes back as one row, summed, and not as one for each of its experts."""
    permutes: bool = False
    """Whether tokens are permuted and sorted around the message, whatever the ranks."""
    fp32_scores: bool = False
    """Whether it hands the router's probabilities on in fp32, in which the experts' bias is weighed then."""
    waits_for_counts: bool = False
    """Whether the host reads its counts to split it, also between two graphs."""
    aliases: tuple[str, ...] = ()
    """Other names."""
