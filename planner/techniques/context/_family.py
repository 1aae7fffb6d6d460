"""Ways to share one sequence's attention among ranks.

Symbols: ``tokens`` on a rank, ``q_width`` and ``kv_width`` elements of its queries (as wide as its outputs)
and of its keys and values together for one token, ``cp`` ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.formulas.collectives import Tier
from planner.numeric import Num

Mask = bool | np.bool_ | NDArray[np.bool_]

Buffer = Callable[[Num, Num, Num, Num], Num]
"""Function of (tokens, q_width, kv_width, cp): elements in the collective's whole buffer."""

Elapsed = Callable[[Num, Num, Num, Sequence[Tier]], Num]
"""Function of (nbytes, ranks, stride, tiers): seconds."""


def equal_shares(cp: Num) -> Num:
    """Return one: all ranks of a causal sequence have the same work. [-]"""
    return 1.0 + 0.0 * cp


def no_waits(cp: Num) -> Num:
    """Return zero: the host runs ahead of the device. [-]"""
    return 0.0 * cp


@dataclass(frozen=True)
class ContextMethod:
    """One way to split attention along the sequence.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line.
    cite : str
        Where it is described.
    overlaps : bool
        Whether its messages run beside the attention that uses them.
    exposed : float, optional
        Share of such messages that nothing hides, however long the attention, where the method's own code
        sends them; None for what the runtime's does (`Traits.cp_exposed`). [-]
    kernel : str
        Attention kernel that the method brings, which merges the results of its steps itself and passes
        gradients on as wide as keys and values; empty for the runtime's, and its ways to stitch.
    keeps_attention : bool
        Whether its checkpoints stand behind attention, so that recompute of whole layers spares attention,
        and no more than that.
    sharded_calls : float
        Calls of a layer's sharded unit in a pass where its checkpoints do, each of which gathers the weights
        anew and reduces their gradients by itself. [-]
    splits_heads : bool
        Whether a rank computes some heads over the whole sequence, rather than all over a part.
    legal : callable
        Mask from (cp, query heads on a rank, key/value heads on a rank): whether the heads can be split.
    forward_elements, backward_elements : Buffer
        Elements in the whole buffer of the collectives of one layer.
    backward_statistics : float
        Elements for each token and query head that backward's buffer has beside those. [element]
    returns_kv_gradients : bool
        Whether backward passes the gradients of keys and values on to their owners.
    seconds : Elapsed
        Time of a collective over such a buffer, in bytes.
    sent_share : callable
        Share of the buffer that one rank sends, from cp.
    gathered_elements : Buffer
        Elements that a rank holds beside its own part while it computes attention.
    idle_factor : callable
        Time of attention over that of equal shares of its work, from cp. [-]
    waits : callable
        How often the host waits for the device in a pass of attention, from cp. [-]
    """

    name: str
    cite: str
    overlaps: bool
    splits_heads: bool
    legal: Callable[[Num, Num, Num], Mask]
    forward_elements: Buffer
    backward_elements: Buffer
    seconds: Elapsed
    sent_share: Callable[[Num], Num]
    gathered_elements: Buffer
    idle_factor: Callable[[Num], Num] = equal_shares
    waits: Callable[[Num], Num] = no_waits
    backward_statistics: float = 0.0
    returns_kv_gradients: bool = True
    exposed: float | None = None
    kernel: str = ""
    keeps_attention: bool = False
    sharded_calls: float = 1.0
    aliases: tuple[str, ...] = ()


def any_heads(cp: Num, heads: Num, kv_heads: Num) -> Mask:
    """Return true: the heads of a rank stay together."""
    return np.greater_equal(cp * heads * kv_heads, 0)


def two_chunks(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the two chunks in flight, one used and one arriving; none on one rank. [element]"""
    return 2 * tokens * kv_width * np.where(cp > 1, 1.0, 0.0)


def ring_share(cp: Num) -> Num:
    """Share of the gathered buffer that one rank sends around a ring. [-]"""
    return (cp - 1) / cp
