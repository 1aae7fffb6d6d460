"""Measure this machine from end to end: checks, one device, and the ranks where torchrun started several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.dataclasses import dataclass
from planner.profile import collectives
from planner.profile.benches import benches
from planner.profile.benches.family import Bench
from planner.profile.device import Device, open_device
from planner.profile.health import check_free, check_works, uuid_of
from planner.profile.nvml import Driver, open_driver
from planner.profile.provenance import provenance_of
from planner.profile.ranks import RankGroup, Ranks, open_ranks, started_ranks
from planner.profile.session import Session, Tell, notes, usable
from planner.profile.store import RawTable, Row
from planner.registry import find

RANK_BENCHES = ("collectives", "overlap")


@dataclass(frozen=True)
class ProfileRequest:
    """What to measure."""

    device: str
    """``cpu``, ``cuda`` or ``cuda:N``."""
    raw: Path
    """The raw table."""
    seconds: float
    """Time for the device's own benches. [s]"""
    only: tuple[str, ...] = ()
    """Names of benches; all where empty."""
    fresh: bool = False
    allow_busy: bool = False
    """Begin anew; measure whatever the device's state."""
    patience: float = 60.0
    """How long to wait for a rank. [s]"""


@dataclass(frozen=True)
class MeasuredMachine:
    """What was measured on a machine."""

    device: Device
    """The device."""
    memory: float
    """What its driver reports. [byte]"""
    provenance: Mapping[str, Any]
    """Date, device and versions."""
    rows: Sequence[Row]
    """Timed rows, all of the raw table."""
    notes: tuple[str, ...]
    """What a reader must know."""


def chosen(only: Sequence[str]) -> tuple[list[Bench], list[str]]:
    """Return the device's benches and the names of the ranks' own that ``only`` asks for."""
    if not only:
        return list(benches().values()), list(RANK_BENCHES)
    alone = [name for name in only if name not in RANK_BENCHES]
    return [find(benches(), name, "--only") for name in alone], [
        name for name in only if name in RANK_BENCHES
    ]


def measure_machine(request: ProfileRequest, tell: Tell) -> MeasuredMachine | None:
    """Measure, and return what was found; None on all ranks but the first, which keeps the table.

    Raises `Stopped` if the device cannot be measured, a rank is missing, or rows cannot be kept; `InputError`
    if a bench is unknown, or the raw table is another machine's.
    """
    own, of_ranks = chosen(request.only)
    device = open_device(request.device)
    driver = open_driver(uuid_of(device))
    if not request.allow_busy:
        check_free(device, driver)
    found = [] if request.allow_busy else check_works(device, alone=started_ranks() > 1)
    device.torch.manual_seed(0)
    ranks = open_ranks(device, request.patience)
    if ranks is None:
        return _measure_one(request, tell, (device, driver), own, found)
    result = _measure_ranks(request, tell, (device, driver, ranks), (own, of_ranks), found)
    ranks.close()
    return result


def _table(request: ProfileRequest, device: Device, driver: Driver) -> RawTable:
    return RawTable(request.raw, provenance_of(device, driver).as_dict(), request.fresh)


def _measure_one(
    request: ProfileRequest, tell: Tell, machine: tuple[Device, Driver], own: list[Bench], found: list[str]
) -> MeasuredMachine:
    device, driver = machine
    table = _table(request, device, driver)
    missing = Session(device, driver, table, request.seconds, tell).run(own)
    return _result(device, driver, table, (*found, *notes(table.rows, missing)))


def _result(device: Device, driver: Driver, table: RawTable, found: Sequence[str]) -> MeasuredMachine:
    memory = driver.memory() or device.memory
    return MeasuredMachine(device, memory, table.head, usable(table.rows), tuple(found))


def _measure_ranks(
    request: ProfileRequest,
    tell: Tell,
    machine: tuple[Device, Driver, Ranks],
    wanted: tuple[list[Bench], list[str]],
    found: list[str],
) -> MeasuredMachine | None:
    """Compare the ranks, time the collectives, and let the first rank measure its device alone."""
    device, driver, ranks = machine
    table = _table(request, device, driver) if ranks.rank == 0 else None
    rates = collectives.rank_rates(ranks, device)
    slow = collectives.straggler_note(rates)
    known = collectives.known_everywhere(ranks, table.keys if table else set())
    if "collectives" in wanted[1]:
        for group in ranks.groups:
            _measure_group(ranks, group, device, table, known)
            ranks.arrive("the next group", ranks.world, request.seconds)
    if "overlap" in wanted[1]:
        row = collectives.slowdown_row(ranks, device)
        if table and row["key"] not in table.keys:
            table.add(row)
    missing = Session(device, driver, table, request.seconds, tell).run(wanted[0]) if table else []
    ranks.arrive("the end", ranks.world, 2 * request.seconds)
    if table is None:
        return None
    return _result(device, driver, table, (*found, *([slow] if slow else []), *notes(table.rows, missing)))


def _measure_group(
    ranks: Ranks, group: RankGroup, device: Device, table: RawTable | None, known: set[str]
) -> None:
    if ranks.rank not in group.ranks:
        return
    for row in collectives.measure_group(ranks, group, device, known):
        if table is not None:
            table.add(row)
