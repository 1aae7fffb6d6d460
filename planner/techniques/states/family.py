"""Ways to share one sequence's scan among ranks that keep all heads and pass on the state.

The state has d_k x d_v elements a head, whatever the length of the sequence. A method of context parallelism
has one of these for layers that scan; layers of attention keep their own.

All merge a state that was computed from zero with the one that arrives, which takes a scaling where a state
only decays (`RecurrentMixer.only_decays`), and a product for each token where the delta rule turns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.dataclasses import dataclass
from planner.formulas.collectives import Tier
from planner.numeric import Num

Elapsed = Callable[[Num, Num, Num, Sequence[Tier]], Num]
"""Function of (bytes of one rank's states, ranks, stride, tiers): seconds of one pass of a layer."""


def no_turns(cp: Num) -> Num:
    """Return zero: all ranks compute at once. [-]"""
    return 0.0 * cp


@dataclass(frozen=True)
class StateMethod:
    """One way to bring every rank the state that its part of the sequence begins with."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    seconds: Elapsed
    """Time of the exchange; nothing hides it."""
    sent_states: Callable[[Num], Num]
    """Times that a rank sends a buffer of one rank's states, from cp. [-]"""
    held_states: Callable[[Num], Num]
    """Such buffers that a rank holds and reads while it waits for its own, from cp. [-]"""
    turns: Callable[[Num], Num] = no_turns
    """Ranks whose products of queries with the state the last one waits for, from cp. [-]"""
    aliases: tuple[str, ...] = ()
    """Other names."""


def one_state(cp: Num) -> Num:
    """Return one: a rank gets the state of the one before it and sends its own on. [-]"""
    return 1.0 + 0.0 * cp
