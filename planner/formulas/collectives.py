"""Seconds of collectives over a hierarchy of links, and bytes that one rank sends.

A group is ``ranks`` members, each ``stride`` ranks from the next; a `Tier` joins ``domain`` consecutive
ranks. A ring visits every member, so the traffic that leaves a domain is carried by the links of all the
members inside it. Where a group straddles domains unevenly, the domain with the fewest of its members
decides: a library gives all nodes as many channels as the least of them has (NVIDIA, NCCL, ``src/init.cc``,
``initTransportsRank``: the minimum of ``nChannels`` over all ranks).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.dataclasses import dataclass, replace
from planner.formulas.spread import Spread, spread
from planner.numeric import ByValue, Num, is_short, maximum, minimum, where
from planner.remembered import remembered

RATES = ("bandwidth", "pair_bandwidth", "shared", "reduced")
"""Fields of a tier that a share of its rates scales."""


@dataclass(frozen=True)
class Tier:
    """One level of the interconnect.

    Parameters
    ----------
    name : str
        Such as ``nvlink`` or ``infiniband``.
    domain : float
        Consecutive ranks that it joins; infinite for the outermost. [-]
    bandwidth : float
        Rate of one accelerator, one direction, as collectives reach it. [byte/s]
    latency : float
        Start-up time of one hop. [s]
    pair_bandwidth : float
        Rate between two accelerators; less than ``bandwidth`` on a mesh of links. [byte/s]
    host_staged : bool
        Whether traffic crosses the host, so that the rate falls with the square of the ranks.
    ramp : float
        Slow start of a library's ring passes inside the tier, 0 where none was measured. [s]
    gpus : float
        Ranks of the job whose groups use it, from rank 0 on; 0 for a group alone. [-]
    crowd : tuple of float
        Numbers of domains of the tier below, rising, for which `crowd_rates` are known. [-]
    crowd_rates : tuple of float
        Rate that one collective among them reaches at most, whatever its members' links carry. [byte/s]
    shared : float
        Rate that all ranks of a domain of the tier below share, 0 where each has links of its own. [byte/s]
    reduced : float
        Rate of an all-reduce among all ranks of one domain where a switch adds up what they send, counted as
        that of a ring; 0 where none does. [byte/s]
    """

    name: str
    domain: float
    bandwidth: float
    latency: float
    pair_bandwidth: float
    host_staged: bool = False
    ramp: float = 0.0
    gpus: float = 0.0
    crowd: tuple[float, ...] = ()
    crowd_rates: tuple[float, ...] = ()
    shared: float = 0.0
    reduced: float = 0.0

    def scaled(self, share: float) -> Tier:
        """Return the tier at a share of its rates."""
        rates = {name: share * getattr(self, name) for name in RATES}
        return replace(self, **rates)

    def spread(self, stride: Num, ranks: Num) -> Spread:
        """Return how groups of ``ranks`` members, ``stride`` ranks from the next, lie in the domains.

        Examples
        --------
        Eight ranks, every fourth one, in nodes of eight: two in each node.

        >>> Tier("nvlink", 8, 450e9, 6e-6, 450e9).spread(4.0, 8.0).fewest
        2.0
        """
        return spread(self.domain, self.gpus, stride, ranks)


def _peers(tier: Tier, below: Spread, here: Spread) -> Num:
    """Domains of the tier below that talk to one another, as few as can be, or where they crowd, as many."""
    few = where(here.fewest > below.fewest, here.fewest, here.largest)
    return (here.largest if tier.host_staged else few) / below.fewest


def group_bandwidth(tier: Tier, members: Num) -> Num:
    """Rate of one accelerator to a group of ``members`` inside a tier.

    Parameters
    ----------
    tier : Tier
        The links.
    members : Num
        Members that talk to one another. [-]

    Returns
    -------
    Num
        One direction. [byte/s]

    Notes
    -----
    On a mesh a member has one link to each other member. Through the host the rate falls with the square
    of the members, as nccl-tests on 2, 4 and 8 L40S show (19, 5 and 1.5 GB/s).

    References
    ----------
    .. [1] AMD, "MI300X: seven links of 64 GB/s," arXiv:2511.17127, sec. 4: (n-1) links in a group of n.
    .. [2] NVIDIA aiconfigurator, commit 095f58a, systems/data/l40s, nccl-tests tables.

    Examples
    --------
    >>> mesh = Tier("xgmi", 8, 448e9, 3e-6, 64e9)
    >>> float(group_bandwidth(mesh, 2)), float(group_bandwidth(mesh, 8))
    (64000000000.0, 448000000000.0)
    """
    if tier.host_staged:
        crowd = 2.0 / maximum(members, 2.0)
        return tier.bandwidth * crowd * crowd
    return minimum(tier.bandwidth, tier.pair_bandwidth * maximum(members - 1.0, 1.0))


def crowded_rate(tier: Tier, domains: Num) -> Num:
    """Rate that one collective among so many domains of the tier below reaches at most.

    Parameters
    ----------
    tier : Tier
        The links, whose rates are known at some numbers of domains.
    domains : Num
        Domains that the group lies in; straight lines join those measured, and the nearest holds beyond. [-]

    Returns
    -------
    Num
        One direction, of all members in a domain together. [byte/s]

    Examples
    --------
    >>> network = Tier("efa", float("inf"), 50e9, 0.0, 50e9, crowd=(2.0, 4.0), crowd_rates=(400e9, 200e9))
    >>> float(crowded_rate(network, 3.0)), float(crowded_rate(network, 8.0))
    (300000000000.0, 200000000000.0)
    """
    rate: Num = np.interp(domains, tier.crowd, tier.crowd_rates)
    return rate


def _ring_terms(ranks: Num, stride: Num, tiers: Sequence[Tier]) -> tuple[Num, Num]:
    """Return the latency of a ring pass [s] and its time for each byte that goes round [s/byte]."""
    if isinstance(ranks, float) and isinstance(stride, float):
        return _terms_alone(tiers, ranks, stride)
    if is_short(ranks, stride):
        return _terms_of(tiers, ByValue(ranks), ByValue(stride))
    return _terms(ranks, stride, tiers)


@remembered(most=65536)
def _terms_alone(tiers: Sequence[Tier], ranks: float, stride: float) -> tuple[Num, Num]:
    """Return those of one plan, of which few kinds come again and again."""
    return _terms(ranks, stride, tiers)


@remembered(most=512)
def _terms_of(tiers: Sequence[Tier], ranks: ByValue, stride: ByValue) -> tuple[Num, Num]:
    """Return those of the rows of a scan, which asks for the same groups under many techniques."""
    return _terms(ranks.numbers, stride.numbers, tiers)


def _terms(ranks: Num, stride: Num, tiers: Sequence[Tier]) -> tuple[Num, Num]:
    slowest: Num = 0.0
    latency: Num = 0.0
    below = Spread.of_each(ranks)
    for tier in tiers:
        here = tier.spread(stride, ranks)
        rate = below.fewest * group_bandwidth(tier, _peers(tier, below, here))
        if tier.crowd:
            rate = minimum(rate, crowded_rate(tier, below.domains))
        slowest = maximum(slowest, here.joins(below) / rate)
        latency = latency + (below.domains - here.domains) * tier.latency
        below = here
    return latency, slowest


def ring_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier], messages: Num = 1.0) -> Num:
    r"""Seconds of one ring pass: an all-gather or a reduce-scatter. [s]

    .. math:: t = M \sum_k h_k \alpha_k + S \frac{n-1}{n} \max_k \frac{1}{i_{k-1} B_k}

    with :math:`h_k = d_{k-1} - d_k` of the ring's hops over tier k, from the domains that a group lies in,
    and :math:`i_k` members, the fewest in one domain of tier k, which carry its outgoing traffic together.

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of the gathered result, or of the input to be reduced. [byte]
    ranks, stride : Num
        Members and the distance between them; one member costs nothing. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.
    messages : Num
        Pieces :math:`M` that follow one another. [-]

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
       MPICH," Int. J. High Perform. Comput. Appl. 19(1), 2005, sec. 4.1, doi:10.1177/1094342005051521.

    Examples
    --------
    >>> link = Tier("nvlink", 8, 450e9, 6e-6, 450e9)
    >>> round(float(ring_seconds(1e9, 8, 1, [link])), 6)
    0.001986
    """
    latency, slowest = _ring_terms(ranks, stride, tiers)
    return messages * latency + (ranks - 1) / ranks * nbytes * slowest


def switch_pass_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds of half an all-reduce, whose buffer a switch adds up where it joins all its ranks. [s]

    .. math:: t = \sum_k h_k \alpha_k + S \frac{n-1}{n} \frac{1}{B_r}

    where the group is a whole domain, with the rate :math:`B_r` of the innermost tier whose switch adds up.

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of the buffer. [byte]
    ranks, stride : Num
        Members and the distance between them; elsewhere than in one whole domain this is a ring pass. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    References
    ----------
    .. [1] NVIDIA aiconfigurator, commit 095f58a, systems/data/h100_sxm, nccl-tests tables: on 2, 4 and 8
       ranks an all-reduce of 256 MiB reaches 305, 341 and 430 GB/s, a gather on two and eight 245 and 322.
    .. [2] NVIDIA, "NCCL environment variables," NCCL_NVLS_ENABLE: NVLink SHARP, from release 2.17 on.

    Examples
    --------
    >>> link = Tier("nvlink", 8, 337.5e9, 0.0, 337.5e9, reduced=450e9)
    >>> [round(1e3 * float(switch_pass_seconds(1e9, ranks, 1, [link])), 3) for ranks in (4.0, 8.0)]
    [2.222, 1.944]
    """
    ring = ring_seconds(nbytes, ranks, stride, tiers)
    tier = next((tier for tier in tiers if tier.reduced), None)
    if tier is None:
        return ring
    latency, _ = _ring_terms(ranks, stride, tiers)
    whole = np.equal(ranks, tier.domain) & np.equal(stride, 1.0)
    return where(whole, latency + (ranks - 1) / ranks * nbytes / tier.reduced, ring)


PROTOCOL_LATENCY = (1.9 / 3.4, 0.6 / 3.4)
"""Latency of a hop by NCCL's protocols LL128 and LL over that of Simple, which whole buffers take. [-]

References
----------
.. [1] NVIDIA, NCCL, ``src/graph/tuning.cc``, ``hwLatencies`` of the ring over NVLink.
"""

LL_BYTES = 2.0
"""Bytes that LL sends for each byte of data: a flag goes with every word. [-]"""


def pieces_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier], messages: Num) -> Num:
    r"""Seconds of a ring pass over a buffer that travels in pieces, by the faster of two protocols. [s]

    .. math:: t = \min(t_{ring}(S, \max(1, 0.56 M)),\; t_{ring}(2 S, \max(1, 0.18 M)))

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of the whole buffer. [byte]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.
    messages : Num
        Pieces :math:`M` that follow one another; one is the whole buffer. [-]

    References
    ----------
    .. [1] Z. Hu et al., "Demystifying NCCL," arXiv:2507.04786, 2025, sec. III (Simple, LL, LL128).

    Examples
    --------
    >>> link = Tier("nvlink", 8, 450e9, 6e-6, 450e9)
    >>> float(pieces_seconds(1e9, 8, 1, [link], 1.0)) == float(ring_seconds(1e9, 8, 1, [link]))
    True
    """
    wide, quick = (maximum(1.0, share * messages) for share in PROTOCOL_LATENCY)
    latency, slowest = _ring_terms(ranks, stride, tiers)
    each = (ranks - 1) / ranks * nbytes * slowest
    return minimum(wide * latency + each, quick * latency + LL_BYTES * each)


def all_to_all_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds of an all-to-all in which every member sends ``nbytes`` in equal parts to all.

    .. math:: t = \sum_k h_k \alpha_k + \max_k \frac{S}{n} \frac{i_k - i_{k-1}}{B_k}

    for a member of the domain that has the fewest of a group (:math:`i_{k-1}`).

    Parameters
    ----------
    nbytes : Num
        Send buffer of one member. [byte]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    Returns
    -------
    Num
        Elapsed time; tiers work at once, so the slowest decides. [s]

    References
    ----------
    .. [1] C. Hwang et al., "Tutel: Adaptive Mixture-of-Experts at Scale," arXiv:2206.03382, 2023, sec. 3.4.

    Examples
    --------
    >>> link = Tier("nvlink", 8, 450e9, 0.0, 450e9)
    >>> round(float(all_to_all_seconds(450e9, 8, 1, [link])), 4)
    0.875
    """
    slowest: Num = 0.0
    latency: Num = 0.0
    below = Spread.of_each(ranks)
    for tier in tiers:
        here = tier.spread(stride, ranks)
        share = (here.largest - below.fewest) / ranks
        slowest = maximum(slowest, share / group_bandwidth(tier, _peers(tier, below, here)))
        latency = latency + (below.domains / here.domains - 1.0) * tier.latency
        below = here
    return latency + nbytes * slowest


def ring_sent_bytes(nbytes: Num, ranks: Num) -> Num:
    """Bytes that one rank sends in a ring all-gather or reduce-scatter. [byte]

    Parameters
    ----------
    nbytes : Num
        Size of the gathered result, or of the input to be reduced. [byte]
    ranks : Num
        Members. [-]

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, as in `ring_seconds`, sec. 4.1.

    Examples
    --------
    >>> ring_sent_bytes(800.0, 8)
    700.0
    """
    return nbytes * (ranks - 1) / ranks
