"""Sites: clusters that slow links join, with what each link carries and each site costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field

from planner.errors import InputError, Problem, nearest
from planner.formulas.low_communication import stream_bandwidth
from planner.inputs.bounded import is_file
from planner.inputs.bounds import Rate, Size
from planner.inputs.build import build
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.record import Positive, Price, Record, Seconds, Sourced
from planner.inputs.yaml_file import read_yaml

MOST_SITES: Final = 16
"""Sites that one file joins at most. [-]"""
LONGEST_TRIP: Final = 10.0
"""Round trip that no link has. [s]"""
MOST_DEVIATION: Final = 1.0


def _trip(value: Sourced) -> Sourced:
    if not 0 < value <= LONGEST_TRIP:
        raise ValueError(f"a time above 0 and at most {LONGEST_TRIP:g} s, such as 60 ms")
    return value


Trip = Annotated[Seconds, AfterValidator(_trip)]
Deviation = Annotated[float, Field(ge=0, le=MOST_DEVIATION)]


class Site(Record):
    """One place: a cluster with fast links inside, and what leaves it.

    ``cluster`` is the name or path of a hardware profile; ``gpus`` are in use, split over ``replicas`` of the
    model; ``uplink`` is what all its links share, one direction; ``deviation`` is the standard deviation of
    an inner step over its mean; ``price`` is of one accelerator and hour, ``device_mtbf`` the mean time
    between the failures that one accelerator causes.
    """

    name: Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9][\w.-]*$")]
    cluster: str
    gpus: Positive
    replicas: Positive = 1
    price: Price | None = None
    uplink: Rate | None = None
    device_mtbf: Seconds | None = None
    deviation: Deviation = 0.0


class SiteLink(Record):
    """What joins two sites: one direction of a link, its round trip, and the connections that fill it.

    Without ``stream_window`` the connections fill the link; with it each has so many bytes under way at most.
    """

    between: Annotated[tuple[str, str], Field()]
    bandwidth: Rate
    round_trip: Trip
    streams: Positive = 1
    stream_window: Size | None = None

    @property
    def rate(self) -> float:
        """What its connections carry together, one direction. [byte/s]"""
        if self.stream_window is None:
            return float(self.bandwidth)
        window, trip = float(self.stream_window), float(self.round_trip)
        return float(stream_bandwidth(float(self.bandwidth), float(self.streams), window, trip))


class SitesProfile(Record):
    """Sites and the links between them: one for each pair that is joined."""

    name: str
    sites: Annotated[tuple[Site, ...], Field(min_length=2, max_length=MOST_SITES)]
    links: Annotated[tuple[SiteLink, ...], Field(min_length=1)]
    note: str = ""

    @property
    def replicas(self) -> int:
        """Copies of the model over all sites."""
        return sum(site.replicas for site in self.sites)

    @property
    def gpus(self) -> int:
        """Accelerators over all sites."""
        return sum(site.gpus for site in self.sites)

    def link(self, one: str, other: str) -> SiteLink | None:
        """Return the link of two sites; None where they are not joined."""
        return next((link for link in self.links if set(link.between) == {one, other}), None)

    def scaled(self, share: float) -> Self:
        """Return the same sites with links and uplinks of other rates."""

        def times(rate: Sourced) -> Sourced:
            return Sourced(share * rate, f"{share * rate} B/s", rate.source, rate.standing)

        links = tuple(
            link.model_copy(update={"bandwidth": times(link.bandwidth), "stream_window": None})
            if link.stream_window is None
            else link.model_copy(update={"bandwidth": times(Sourced(link.rate)), "stream_window": None})
            for link in self.links
        )
        sites = tuple(
            site.model_copy(update={"uplink": times(site.uplink)}) if site.uplink is not None else site
            for site in self.sites
        )
        return self.model_copy(update={"links": links, "sites": sites})


def is_sites_file(text: str) -> bool:
    """Whether ``text`` names a file of sites: a YAML with the key ``sites`` at its top."""
    path = Path(text).expanduser()
    try:
        if path.suffix not in (".yaml", ".yml") or not is_file(path):
            return False
        return "sites" in read_yaml(path)
    except (InputError, OSError, ValueError):
        return False


def load_sites(text: str) -> tuple[SitesProfile, Mapping[str, HardwareProfile]]:
    """Return the sites of a file, and the cluster of each by the site's name.

    Raises `InputError` with every fault of the file: its fields, names, links and clusters.
    """
    path = Path(text).expanduser()
    raw = read_yaml(path)
    found = build(SitesProfile, raw, str(path), _sources(raw))
    problems = list(_faults(found, str(path)))
    clusters: dict[str, HardwareProfile] = {}
    for number, site in enumerate(found.sites):
        where = f"{path}: sites[{number}].cluster"
        try:
            clusters[site.name] = _cluster(site, path.parent)
        except InputError as error:
            problems += [
                Problem(where, one.found, one.expected, one.nearest) if one.where == "hardware" else one
                for one in error.problems
            ]
    if problems:
        raise InputError(problems)
    return found, clusters


def _sources(raw: dict[str, Any]) -> dict[str, str]:
    """Remove the table of sources from a file and return it."""
    table = raw.pop("sources", {})
    return {str(name): str(value) for name, value in table.items()} if isinstance(table, Mapping) else {}


def _cluster(site: Site, folder: Path) -> HardwareProfile:
    beside = folder / site.cluster
    text = str(beside) if site.cluster.endswith((".yaml", ".yml")) and is_file(beside) else site.cluster
    profile = load_hardware(text)
    return profile if site.price is None else profile.with_price(float(site.price))


def _faults(found: SitesProfile, where: str) -> Iterator[Problem]:
    """Yield what is wrong with names and links."""
    names = [site.name for site in found.sites]
    for name, times in Counter(names).items():
        if times > 1:
            yield Problem(f"{where}: sites", f"{name!r} {times} times", "each site once")
    for number, site in enumerate(found.sites):
        if site.gpus % site.replicas:
            near = max(count for count in range(1, site.replicas + 1) if site.gpus % count == 0)
            place = f"{where}: sites[{number}].replicas"
            yield Problem(place, str(site.replicas), f"a divisor of its {site.gpus} accelerators", str(near))
    seen: set[frozenset[str]] = set()
    for number, link in enumerate(found.links):
        place = f"{where}: links[{number}].between"
        unknown = [name for name in link.between if name not in names]
        for name in unknown:
            yield Problem(place, repr(name), f"one of {', '.join(names)}", nearest(name, names))
        pair = frozenset(link.between)
        if not unknown and (len(pair) == 1 or pair in seen):
            yield Problem(place, " and ".join(link.between), "two sites that no other link joins")
        seen.add(pair)
    yield from _apart(names, seen, where)


def _apart(names: list[str], joined: set[frozenset[str]], where: str) -> Iterator[Problem]:
    """Yield the pairs of sites that no link joins: every method here may send between any two."""
    missing = [pair for pair in combinations(dict.fromkeys(names), 2) if frozenset(pair) not in joined]
    for one, other in missing[:3]:
        yield Problem(f"{where}: links", f"none between {one} and {other}", "a link for each pair of sites")
