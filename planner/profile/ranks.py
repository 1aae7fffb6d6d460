"""The ranks that torchrun has started: their groups over each tier, and who is missing."""

from __future__ import annotations

import datetime
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.profile.device import Device
from planner.profile.stopped import Stopped

MISSING: Final = re.compile(r"[Rr]anks? ([\d, ]+) failed to pass monitoredBarrier")


NCCL_PATIENCE: Final = 4.0
"""Times of the own patience after which NCCL's watchdog ends the process, which must not be first. [-]"""
STUCK: Final = 1
"""Exit code of a rank that cannot even be interrupted."""


@dataclass(frozen=True)
class RankGroup:
    """Ranks that communicate."""

    name: str
    """In words, with the ranks."""
    ranks: tuple[int, ...]
    """Members."""
    nodes: int
    """Nodes that they lie on. [-]"""
    handle: Any
    watch: Any
    """The group, and the same ranks over TCP, which tells who did not arrive."""


@dataclass(frozen=True)
class Ranks:
    """One rank among all."""

    rank: int
    size: int
    node_size: int
    """Own number, number of ranks, and ranks of a node. [-]"""
    seconds: float
    """How long to wait for a rank. [s]"""
    backend: str
    """``nccl`` or ``gloo``."""
    dist: Any
    """``torch.distributed``."""
    groups: tuple[RankGroup, ...]
    """From pairs to all ranks."""

    @property
    def world(self) -> RankGroup:
        """All ranks."""
        return self.groups[-1]

    def arrive(self, what: str, group: RankGroup, patience: float = 0.0) -> None:
        """Wait until all members of a group are here.

        Parameters
        ----------
        what : str
            What comes next, for the message.
        group : RankGroup
            Who must be here.
        patience : float
            How long to wait beside the usual time, where others are known to work. [s]

        Raises
        ------
        Stopped
            If one does not come in time; the message names the rank, the group and what was to be done.
        """
        timeout = datetime.timedelta(seconds=self.seconds + patience)
        try:
            self.dist.monitored_barrier(group=group.watch, timeout=timeout, wait_all_ranks=True)
        except RuntimeError as error:
            raise Stopped(self.absent(str(error), what, group)) from None

    @contextmanager
    def watched(self, what: str, group: RankGroup) -> Iterator[None]:
        """End this process with one sentence where what runs inside takes longer than the patience.

        A collective that hangs holds its thread inside NCCL or the driver, where no exception reaches it;
        what was measured is on disk already.
        """

        def give_up() -> None:
            sys.stderr.write(f"error: {self.hung(what, group)}\n")
            sys.stderr.flush()
            os._exit(STUCK)

        alarm = threading.Timer(self.seconds, give_up)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def hung(self, what: str, group: RankGroup) -> str:
        """Say in words which collective of whom has not ended."""
        return (
            f"{what} in group {group.name} has not ended after {self.seconds:.0f} s on rank {self.rank} "
            f"({self.backend} hangs); what was measured so far is kept"
        )

    def absent(self, error: str, what: str, group: RankGroup) -> str:
        """Say in words who did not arrive."""
        found = MISSING.search(error)
        who = f"rank {found[1].strip()}" if found else "a rank"
        return (
            f"{who} of group {group.name} did not arrive at {what} within {self.seconds:.0f} s "
            f"({self.backend}, told by rank {self.rank}); its own output says why, or its GPU or link hangs"
        )

    def close(self) -> None:
        """Leave the groups."""
        if self.dist.is_initialized():
            self.dist.destroy_process_group()


def group_ranks(size: int, node_size: int) -> list[tuple[str, tuple[int, ...], int]]:
    """Return the groups to measure: inside the first node, one rank of each node, and all.

    Examples
    --------
    >>> [(name, nodes) for name, _, nodes in group_ranks(8, 4)]
    [('2 of a node', 1), ('4 of a node', 1), ('one of each node', 2), ('all ranks', 2)]
    """
    nodes = size // node_size
    found: list[tuple[str, tuple[int, ...], int]] = []
    members = 2
    while members < node_size:
        found.append((f"{members} of a node", tuple(range(members)), 1))
        members *= 2
    if nodes > 1 and node_size > 1:
        found.append((f"{node_size} of a node", tuple(range(node_size)), 1))
        found.append(("one of each node", tuple(range(0, size, node_size)), nodes))
    found.append(("all ranks", tuple(range(size)), nodes))
    return found


def started_ranks() -> int:
    """Return how many ranks torchrun has started, 1 without it. [-]"""
    return int(os.environ.get("WORLD_SIZE", "1"))


def open_ranks(device: Device, seconds: float) -> Ranks | None:
    """Join the ranks that torchrun has started; None where there is only one.

    Raises `Stopped` if not all ranks join in time.
    """
    size = started_ranks()
    if size == 1:
        return None
    dist = importlib.import_module("torch.distributed")
    rank, node_size = int(os.environ["RANK"]), int(os.environ.get("LOCAL_WORLD_SIZE", size))
    backend = "gloo" if device.is_cpu else "nccl"
    timeout = datetime.timedelta(seconds=seconds)
    try:
        dist.init_process_group("gloo" if device.is_cpu else "cpu:gloo,cuda:nccl", timeout=timeout)
        groups = _groups(dist, size, node_size, timeout, NCCL_PATIENCE * timeout)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise Stopped(
            f"rank {rank} waited {seconds:.0f} s for the group of all {size} ranks, and not all came: "
            f"{reason}"
        ) from None
    return Ranks(rank, size, node_size, seconds, backend, dist, groups)


def _groups(
    dist: Any, size: int, node_size: int, timeout: datetime.timedelta, longer: datetime.timedelta
) -> tuple[RankGroup, ...]:
    return tuple(
        RankGroup(
            name=f"{name!r} (ranks {listed(ranks)})",
            ranks=ranks,
            nodes=nodes,
            handle=dist.new_group(ranks, timeout=longer),
            watch=dist.new_group(ranks, timeout=timeout, backend="gloo"),
        )
        for name, ranks, nodes in group_ranks(size, node_size)
    )


def listed(ranks: Sequence[int]) -> str:
    """Return ranks in few letters.

    Examples
    --------
    >>> listed(range(8)), listed([0, 8])
    ('0-7', '0, 8')
    """
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))
