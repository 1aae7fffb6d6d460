"""The record of one release of a runtime, and of all those of a runtime."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """One release that a user can ask for."""

    name: str
    """The runner's own version."""
    date: str
    """Day, month or year of it."""
    brings: str
    """What is known to have come with it, in a phrase."""
    framework: str = ""
    """What a run table writes for it: the era of that text has its traits and fitted constants. Empty for a
    release that is priced as the runtime itself is: as the files that are written for it run."""
    containers: tuple[str, ...] = ()
    """NVIDIA's containers that hold it."""
    files: str = ""
    """The version of the runtime's files that it reads; empty where the nearest ones are for another."""
    sequence_parallel: bool = False
    """Whether it has what came with sequence parallelism, where its era tells that apart."""
    before_hopper: bool = False
    """Whether it runs on A100 and older alone."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names that mean it."""
        return (self.name, *self.containers)


@dataclass(frozen=True)
class Releases:
    """The releases of a runtime."""

    name: str
    """The runtime's."""
    releases: tuple[Release, ...]
    """Newest first."""
    source: str
    """Where versions, dates and containers were read."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def newest(self) -> Release:
        """What is meant where none is named."""
        return self.releases[0]
