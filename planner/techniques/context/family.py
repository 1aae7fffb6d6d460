"""Ways to share one sequence's attention among ranks.

Symbols: ``tokens`` on a rank, ``q_width`` and ``kv_width`` elements of its queries (as wide as its outputs)
and of its keys and values together for one token, ``cp`` ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem
from planner.formulas.collectives import Tier
from planner.numeric import Num, where
from planner.registry import find
from planner.techniques.states import STATE_METHODS, StateMethod
from planner.units import is_whole

Mask = bool | np.bool_ | NDArray[np.bool_]

Buffer = Callable[[Num, Num, Num, Num], Num]
"""Function of (tokens, q_width, kv_width, cp): elements in the collective's whole buffer."""

Elapsed = Callable[[Num, Num, Num, Sequence[Tier]], Num]
"""Function of (nbytes, ranks, stride, tiers): seconds."""


def equal_shares(cp: Num) -> Num:
    """Return one: all ranks of a causal sequence have the same work. [-]"""
    return 1.0 + 0.0 * cp


def no_heads(cp: Num, heads: Num, kv_heads: Num, near: Num) -> Num:
    """Return one: every rank computes all heads. [-]"""
    return 1.0 + 0.0 * cp


def all_heads(cp: Num, heads: Num, kv_heads: Num, near: Num) -> Num:
    """Return cp: every rank computes its own heads. [-]"""
    return 1.0 * cp


def no_waits(cp: Num) -> Num:
    """Return zero: the host runs ahead of the device. [-]"""
    return 0.0 * cp


@dataclass(frozen=True)
class ContextMethod:
    """One way to split attention along the sequence."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    overlaps: bool
    """Whether its messages run beside the attention that uses them."""
    legal: Callable[[Num, Num, Num, Num], Mask]
    """Mask from (cp, query heads on a rank, key/value heads on a rank, `head_ranks`): whether the heads can
    be split so."""
    forward_elements: Buffer
    backward_elements: Buffer
    """Elements in the whole buffer of the collectives of one layer."""
    seconds: Elapsed
    """Time of a collective over such a buffer, in bytes."""
    sent_share: Callable[[Num], Num]
    """Share of the buffer that one rank sends, from cp."""
    gathered_elements: Buffer
    """Elements that a rank holds beside its own part in the backward of attention."""
    head_ranks: Callable[[Num, Num, Num, Num], Num] = no_heads
    """Ranks that share the heads of one part of the sequence, from (cp, query heads on a rank, key/value
    heads on a rank, consecutive ranks of context parallelism that fast links join): one where every rank
    computes all heads over its own part, cp where each computes some over the whole. [-]"""
    heads_by: ContextMethod | None = None
    """The method by which those ranks exchange heads, where it is not this one: this one then runs between
    groups of them, over the heads of one rank."""
    states: StateMethod | None = None
    """How layers that scan share a sequence where they pass on states; None where they exchange heads."""
    idle_factor: Callable[[Num], Num] = equal_shares
    """Time of attention over that of equal shares of its work, from cp. [-]"""
    waits: Callable[[Num], Num] = no_waits
    """How often the host waits for the device in a pass of attention, from cp. [-]"""
    backward_statistics: float = 0.0
    """Elements for each token and query head that backward's buffer has beside those. [element]"""
    returns_kv_gradients: bool = True
    """Whether backward passes the gradients of keys and values on to their owners."""
    exposed: float | None = None
    """Share of such messages that nothing hides, however long the attention, where the method's own code
    sends them; None for what the runtime's does (`Traits.cp_exposed`). [-]"""
    kernel: str = ""
    """Attention kernel that the method brings, which merges the results of its steps itself and passes
    gradients on as wide as keys and values; empty for the runtime's, and its ways to stitch."""
    keeps_attention: bool = False
    """Whether its checkpoints stand behind attention, so that recompute of whole layers spares attention, and
    no more than that."""
    sharded_calls: float = 1.0
    """Calls of a layer's sharded unit in a pass where its checkpoints do, each of which gathers the weights
    anew and reduces their gradients by itself. [-]"""
    searched_from: int = 0
    """Length from which a search tries the method where the user names none. [token]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def splits_heads(self) -> bool:
        """Whether every rank computes some heads over the whole sequence, rather than all over a part."""
        return self.head_ranks is all_heads

    @property
    def shares_heads(self) -> bool:
        """Whether some ranks compute some of a part's heads each."""
        return self.splits_heads or self.heads_by is not None


def any_heads(cp: Num, heads: Num, kv_heads: Num, head_ranks: Num) -> Mask:
    """Return true: the heads of a rank stay together."""
    return np.greater_equal(cp * heads * kv_heads, 0)


def splits_evenly(heads: Num, kv_heads: Num, head_ranks: Num) -> Mask:
    """Whether ranks that share heads get the same whole number of query and of key/value heads each."""
    both: Mask = np.equal(np.mod(heads, head_ranks), 0) & np.equal(np.mod(kv_heads, head_ranks), 0)
    return both


def two_chunks(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the two chunks in flight, one used and one arriving; none on one rank. [element]"""
    return 2 * tokens * kv_width * where(cp > 1, 1.0, 0.0)


def four_chunks(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of two chunks of keys and values in flight and of two of their gradients. [element]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine, ``attention/dot_product_attention/context_parallel.py``,
       ``AttnFuncWithCPAndKVP2P.backward``: ``p2p_comm_buffers``, two of keys, values and both gradients.
    """
    return 2 * two_chunks(tokens, q_width, kv_width, cp)


def ring_share(cp: Num) -> Num:
    """Share of the gathered buffer that one rank sends around a ring. [-]"""
    return (cp - 1) / cp


def read_method(table: Mapping[str, ContextMethod], text: str, where: str = "--cp-method") -> ContextMethod:
    """Read a method's name, that of a mesh with ranks that share heads, or one with how states are passed.

    As ``usp:4``, as ``ring+zeco``, or as ``zeco`` beside the ring that attention has by default.

    Raises
    ------
    InputError
        If the name is unknown, or has a number where the method has no mesh or that is no number.
    """
    head, plus, tail = text.rpartition("+")
    if plus and text.lower() not in {alias for entry in table.values() for alias in entry.aliases}:
        return _passing(read_method(table, head, where), find(STATE_METHODS, tail, where), where)
    if not plus and _named(STATE_METHODS, text):
        return _passing(table["ring"], find(STATE_METHODS, text, where), where)
    name, colon, argument = text.partition(":")
    entry = find(table, name, where)
    if not colon:
        return entry
    if entry.heads_by is None:
        meshes = ", ".join(f"{one.name}:N" for one in table.values() if one.heads_by is not None)
        raise InputError(Problem(where, repr(text), f"no number but for a mesh ({meshes})", entry.name))
    if not is_whole(argument) or not 0 < int(argument) < 10**7:
        expected = "a whole number of ranks that share heads"
        raise InputError(Problem(where, repr(text), expected, f"{entry.name}:2"))
    ranks = float(int(argument))
    return replace(entry, name=f"{entry.name}:{ranks:.0f}", head_ranks=lambda cp, *_: ranks + 0.0 * cp)


def _named(table: Mapping[str, StateMethod], text: str) -> bool:
    """Whether the table has that name or spelling."""
    return any(text.lower() in (entry.name, *entry.aliases) for entry in table.values())


def _passing(method: ContextMethod, states: StateMethod, where: str) -> ContextMethod:
    """Return a method whose layers that scan pass on states."""
    if method.states is not None:
        both = f"{method.name}+{states.name}"
        raise InputError(Problem(where, repr(both), "one way to pass on states", method.name))
    return replace(method, name=f"{method.name}+{states.name}", states=states)


def offered_name(text: str) -> str:
    """Return the name of a method of attention, without the size of its mesh and how states are passed.

    Examples
    --------
    >>> offered_name("usp:4"), offered_name("usp:4+zeco"), offered_name("ring")
    ('usp', 'usp', 'ring')
    """
    return text.partition("+")[0].partition(":")[0]
