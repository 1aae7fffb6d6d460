"""Over which links an exchange between sites goes, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise, permutations
from statistics import NormalDist
from typing import Final

from planner.dataclasses import dataclass
from planner.formulas.collectives import ring_sent_bytes
from planner.formulas.low_communication import exchange_seconds, gathered_bytes
from planner.inputs.sites import Site, SitesProfile

EXACT_RINGS: Final = 8
"""Sites up to which every order of a ring is tried. [-]"""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Hop:
    """One link that an exchange uses: its sites, and what goes through it in one direction.

    ``share`` is of the exchange's bytes for one replica; ``rate`` what link and uplink carry. [byte/s]
    """

    pair: Pair
    share: float
    rate: float


@dataclass(frozen=True)
class Route:
    """The links of an exchange."""

    hops: tuple[Hop, ...]
    """The links, each once for each direction in which it is used."""
    turns: float
    """Messages that follow one another. [-]"""
    latency: float
    """One way over the longest link. [s]"""

    def seconds(self, nbytes: float) -> float:
        """Return how long an exchange of so many bytes of each replica takes on the slowest link. [s]"""
        return max(
            float(exchange_seconds(hop.share * nbytes, hop.rate, self.latency, self.turns))
            for hop in self.hops
        )

    def sent(self, nbytes: float) -> dict[Pair, float]:
        """Return what goes over each link in its busier direction. [byte]"""
        found: dict[Pair, float] = {}
        for hop in self.hops:
            found[hop.pair] = max(found.get(hop.pair, 0.0), hop.share * nbytes)
        return found

    def peak(self, nbytes: float) -> dict[Pair, float]:
        """Return the rate at which each link carries its bytes while the exchange lasts. [byte/s]"""
        lasting = self.seconds(nbytes) - self.turns * self.latency
        return {pair: amount / lasting if lasting > 0 else 0.0 for pair, amount in self.sent(nbytes).items()}


def ring_route(profile: SitesProfile, sums: bool) -> Route:
    """Return the ring through all sites: of partial sums that go round twice, or of all that each gathers."""
    order = ring_order(profile)
    count = float(profile.replicas)
    each = float(2.0 * ring_sent_bytes(1.0, count)) if sums else float(gathered_bytes(1.0, count))
    edges = list(pairwise((*order, order[0])))
    hops = tuple(Hop(key(*edge), each, link_rate(profile, *edge)) for edge in edges)
    turns = (2.0 if sums else 1.0) * (count - 1.0)
    return Route(hops, turns, max(link_latency(profile, *edge) for edge in edges))


def pair_route(profile: SitesProfile) -> Route:
    """Return random pairs at their worst: all replicas of a site with peers over one of its links."""
    hops = []
    for link in profile.links:
        for one, other in (link.between, link.between[::-1]):
            flows = min(site(profile, one).replicas, site(profile, other).replicas)
            beside = _met(profile, one) / flows, _met(profile, other) / flows
            hops.append(Hop(key(one, other), float(flows), link_rate(profile, one, other, beside)))
    return Route(tuple(hops), 1.0, max(link_latency(profile, *link.between) for link in profile.links))


def _met(profile: SitesProfile, name: str) -> int:
    """Return how many replicas of a site may have their peer elsewhere at once. [-]"""
    own = site(profile, name).replicas
    return min(own, profile.replicas - own)


@lru_cache(maxsize=256)
def chain_order(profile: SitesProfile) -> tuple[str, ...]:
    """Return the sites along the path through all of them whose narrowest link is widest."""
    order = ring_order(profile)
    cuts = [(*order[place:], *order[:place]) for place in range(len(order))]
    return max(cuts, key=lambda one: min(chain_rate(profile, one, *edge) for edge in pairwise(one)))


def chain_route(profile: SitesProfile) -> Route:
    """Return the path through all sites whose narrowest link is widest."""
    order = chain_order(profile)
    edges = list(pairwise(order))
    hops = tuple(Hop(key(*edge), 1.0, chain_rate(profile, order, *edge)) for edge in edges)
    return Route(hops, 1.0, max(link_latency(profile, *edge) for edge in edges))


def chain_rate(profile: SitesProfile, order: tuple[str, ...], one: str, other: str) -> float:
    """Return what a link of a path carries: sites between others send both ways by one uplink. [byte/s]"""
    first, second = (2.0 if name in order[1:-1] else 1.0 for name in (one, other))
    return link_rate(profile, one, other, (first, second))


@lru_cache(maxsize=256)
def ring_order(profile: SitesProfile) -> tuple[str, ...]:
    """Return the order of sites in the ring: its slowest link as fast as can be, then the least latency.

    Up to eight sites every order is tried; of more, one grows by the widest link from each site.

    References
    ----------
    .. [1] M. Keiblinger et al., "Prime Collective Communications Library," arXiv:2505.14065: a ring runs at
       its slowest link, so its order is a travelling-salesman tour of measured bandwidths.
    """
    names = tuple(one.name for one in profile.sites)
    if len(names) <= EXACT_RINGS:
        candidates = [(names[0], *rest) for rest in permutations(names[1:])]
    else:
        candidates = [_grown(profile, first) for first in names]
    return _least_bad(profile, candidates)


def _least_bad(profile: SitesProfile, orders: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ring whose slowest link is fastest, of those the one of least latency."""
    names = [one.name for one in profile.sites]
    edges = {
        edge: (link_rate(profile, *edge), link_latency(profile, *edge)) for edge in permutations(names, 2)
    }

    def badness(order: tuple[str, ...]) -> tuple[float, float]:
        known = [edges[edge] for edge in pairwise((*order, order[0]))]
        return -min(rate for rate, _ in known), sum(latency for _, latency in known)

    return min(orders, key=badness)


def _grown(profile: SitesProfile, first: str) -> tuple[str, ...]:
    order, left = [first], [one.name for one in profile.sites if one.name != first]
    while left:
        following = max(left, key=lambda name: link_rate(profile, order[-1], name))
        order.append(following)
        left.remove(following)
    return tuple(order)


def key(one: str, other: str) -> Pair:
    """Return the name of a link, whichever way it is written."""
    return (one, other) if one <= other else (other, one)


def site(profile: SitesProfile, name: str) -> Site:
    """Return a site by its name."""
    return next(one for one in profile.sites if one.name == name)


def link_rate(profile: SitesProfile, one: str, other: str, flows: tuple[float, float] = (1.0, 1.0)) -> float:
    """Return what leaves one site for another: the link's rate, or a part of an uplink. [byte/s]

    ``flows`` is for each of the sites what its uplink carries over what this link does. [-]
    """
    link = profile.link(one, other)
    if link is None:
        return 0.0
    ends = zip((site(profile, one), site(profile, other)), flows, strict=True)
    return min([link.rate, *(float(end.uplink) / count for end, count in ends if end.uplink is not None)])


def link_latency(profile: SitesProfile, one: str, other: str) -> float:
    """Return one way over the link of two sites. [s]"""
    link = profile.link(one, other)
    return 0.5 * float(link.round_trip) if link is not None else 0.0


@cache
def slowest_of(replicas: int) -> float:
    r"""Return the expected largest of so many standard normal numbers.

    .. math:: \int x \, n \, \phi(x) \, \Phi(x)^{n - 1} \, dx

    References
    ----------
    .. [1] H. A. David and H. N. Nagaraja, "Order Statistics," 3rd ed., 2003, doi:10.1002/0471722162.

    Examples
    --------
    >>> round(slowest_of(2), 4), round(slowest_of(16), 3), slowest_of(1)
    (0.5642, 1.766, 0.0)
    """
    if replicas < 2:
        return 0.0
    normal, width = NormalDist(), 0.02
    places = (width * place for place in range(-400, 401))
    terms = (x * replicas * normal.pdf(x) * normal.cdf(x) ** (replicas - 1) for x in places)
    return width * sum(terms)
