"""Where the groups of a job lie: which domains of a tier their ranks span, by rank numbers.

Groups of one kind are ``ranks`` members, each ``stride`` ranks from the next: ``stride`` groups fill a block
of ``stride * ranks`` consecutive ranks, and blocks follow one another from rank 0. Domain d of a tier joins
ranks ``d * domain`` to ``(d + 1) * domain - 1``. Where neither divides the other, blocks begin at different
places of a domain and some groups straddle its edge.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner import numeric
from planner.dataclasses import dataclass
from planner.numeric import PLAIN, ByValue, Column, Num, Truth, floor, is_short, maximum, minimum


@dataclass(frozen=True)
class Spread:
    """How all groups of one kind lie in the domains of a tier; the worst of them decides.

    Parameters
    ----------
    domains : Num
        Domains in which one group has members, at most. [-]
    fewest : Num
        Members that a domain has of a group, at least, among groups with members in several domains; all
        where there is no such group. [-]
    largest : Num
        Members that a domain has of a group, at most. [-]
    """

    domains: Num
    fewest: Num
    largest: Num

    @classmethod
    def of_each(cls, ranks: Num) -> Spread:
        """Return the spread of a group over its ranks, each a domain of its own."""
        return cls(ranks, 1.0, 1.0)

    def joins(self, below: Spread) -> Truth:
        """Whether these domains join members of some group that those of the tier below hold apart."""
        return (self.largest > below.largest) | (below.domains > self.domains)


def spread(domain: float, gpus: float, stride: Num, ranks: Num) -> Spread:
    """Domains that groups of one kind lie in, and how many of their members share one.

    Parameters
    ----------
    domain : float
        Consecutive ranks that a domain joins; infinite for the outermost tier. [-]
    gpus : float
        Ranks of the job, which its groups fill; less than a block for a group alone from rank 0. [-]
    stride, ranks : Num
        Distance between members of a group, and members. [-]

    Returns
    -------
    Spread
        By arithmetic where groups and domains are aligned, counted once for each (stride, ranks) elsewhere.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``megatron/core/parallel_state.py``,
       ``generate_masked_orthogonal_rank_groups``: groups from strides and sizes.

    Examples
    --------
    Six ranks, nodes of eight, 24 ranks in all: 6 to 11 lie on two nodes, two of them on the first.

    >>> spread(8.0, 24.0, 1.0, 6.0)
    Spread(domains=2.0, fewest=2.0, largest=6.0)
    >>> spread(8.0, 16.0, 4.0, 4.0)
    Spread(domains=2.0, fewest=2.0, largest=2.0)
    """
    if isinstance(stride, float) and isinstance(ranks, float):
        return _spread_alone(domain, gpus, stride, ranks)
    if is_short(stride, ranks):
        return _spread_of(domain, gpus, ByValue(stride), ByValue(ranks))
    return _spread(domain, gpus, stride, ranks)


def _spread(domain: float, gpus: float, stride: Num, ranks: Num) -> Spread:
    if gpus <= domain and (gpus > 0 or domain == np.inf):
        return Spread(1.0, ranks, ranks)
    inside = minimum(ranks, maximum(1.0, floor(domain / stride)))
    block = stride * ranks
    filled = _divides(domain, block) & (_divides(domain, stride) | _divides(stride, domain))
    alike = filled | _divides(block, domain) | (maximum(block, gpus) <= domain)
    if numeric.all(alike):
        return Spread(ranks / inside, inside, inside)
    return _counted(Spread(ranks / inside, inside, inside), alike, (domain, gpus), stride, ranks)


@lru_cache(maxsize=65536)
def _spread_alone(domain: float, gpus: float, stride: float, ranks: float) -> Spread:
    """Return the spread of groups of one plan, of which few kinds come again and again."""
    return _spread(domain, gpus, stride, ranks)


@lru_cache(maxsize=512)
def _spread_of(domain: float, gpus: float, stride: ByValue, ranks: ByValue) -> Spread:
    """Return the spread of groups of the rows of a scan, which asks for the same under many techniques."""
    return _spread(domain, gpus, stride.numbers, ranks.numbers)


def _divides(number: Num, other: Num) -> Truth:
    """Whether a whole number divides another one.

    Examples
    --------
    >>> bool(_divides(4.0, 8.0)), bool(_divides(3.0, 8.0))
    (True, False)
    """
    times = other / number
    return times == floor(times)


def _counted(known: Spread, alike: Truth, tier: tuple[float, float], stride: Num, ranks: Num) -> Spread:
    """Return the spread with the rows that are not alike counted."""
    if isinstance(stride, PLAIN) and isinstance(ranks, PLAIN):
        return Spread(*_count_spread(*tier, float(stride), float(ranks)))
    strides, sizes, left = np.broadcast_arrays(stride, ranks, np.logical_not(alike))
    kinds, which = np.unique(np.stack([strides[left], sizes[left]]), axis=1, return_inverse=True)
    found = np.array([_count_spread(*tier, *kind) for kind in kinds.T.tolist()])[which.reshape(-1)]
    columns = []
    for value, counts in zip((known.domains, known.fewest, known.largest), found.T, strict=True):
        column: Column = np.array(np.broadcast_to(value, left.shape), dtype=float)
        column[left] = counts
        columns.append(column)
    return Spread(*columns)


@lru_cache(maxsize=65536)
def _count_spread(domain: float, gpus: float, stride: float, ranks: float) -> tuple[float, float, float]:
    """Count domains, fewest and largest members, as in `Spread`, over all places where groups begin.

    A group is where it is in its domain by its first rank's place there, so that each place counts once.
    """
    block = stride * ranks
    blocks = np.arange(max(1, min(int(gpus // block), int(domain))))
    offsets = np.arange(min(stride, domain))
    first = np.unique((blocks[:, None] * block + offsets) % domain)[:, None]
    edges = domain * np.arange(1, int((2 * domain + block) // domain) + 1)
    before = np.clip(np.ceil((edges - first) / stride), 0.0, ranks)
    members = np.diff(before, axis=1, prepend=0.0)
    domains = np.count_nonzero(members, axis=1)
    straddling = members[domains > 1]
    fewest = straddling[straddling > 0].min(initial=ranks)
    return float(domains.max()), float(fewest), float(members.max())
