"""The text of nccl-tests and rccl-tests: times of a collective by size, out of place and in place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from planner.dataclasses import dataclass, field
from planner.errors import InputError, Problem
from planner.formulas.collective_curves import BUS_FACTOR
from planner.units import GB, MICROSECOND

_NAMES: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_OPERATION: Final = re.compile(rf"({'|'.join(_NAMES)})_perf")
_STARTING: Final = re.compile(r"Collective test starting: (\w+?)_perf")
_RANK: Final = re.compile(
    r"^\s*#?\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+) on"
    r"\s+(\S+)\s+device\s+(\d+)\s+\[\S+\]\s+(.+?)\s*$"
)
_SETTINGS: Final = re.compile(r"nThread\s+\d+\s+nGpus\s+\d+\s+minBytes")
_ROW: Final = re.compile(r"^\s*(\d+)\s+(\d+)\s+([a-z]\w*)(?:\s+([a-z]+))?\s+(\S.*)$")
_LABEL: Final = re.compile(r"^(?:\[\d+(?:,\d+)?\](?:<std(?:out|err)>:?)?|\s*\d+:)(?=\s|#|$)")
"""What launchers put before each line of a rank: ``[1,0]<stdout>:``, ``[0]`` or ``0:``."""
_OTHER: Final = re.compile(r"\b(sendrecv|broadcast|reduce|gather|scatter|hypercube|alltoallv)_perf")
"""Tests whose rates no collective of a training step has."""
_CLOSE: Final = 0.03
"""Largest relative distance between a printed bus bandwidth and the one that its time gives. [-]"""


@dataclass(frozen=True)
class Timed:
    """One size."""

    nbytes: float
    """As nccl-tests counts it. [byte]"""
    out_of_place: float
    in_place: float
    """Times. [s]"""
    bus_rate: float
    """Bus bandwidth that is printed out of place. [byte/s]"""
    wrong: bool
    """Whether results were wrong."""


@dataclass(frozen=True)
class NcclTest:
    """One test."""

    operation: str
    """A key of ``BUS_FACTOR``."""
    ranks: int
    """Who took part. [-]"""
    hosts: int
    """Hosts that the text names, 0 where it does not show all ranks. [-]"""
    device: str
    """Product name of the first device."""
    rows: tuple[Timed, ...]
    """By size."""


@dataclass
class _Table:
    """What has been read of one test."""

    operation: str
    members: list[tuple[int, str, str]] = field(default_factory=list)
    redop: str = ""
    rows: list[Timed] = field(default_factory=list)
    ratio: float = 0.0


def read_nccl_tests(text: str, where: str) -> tuple[NcclTest, ...]:
    """Return every test of the text.

    Raises `InputError` if there is no row, results were wrong, the ranks did not find one another, or neither
    text nor file name tells the operation.
    """
    everything = list(_tables(text, where))
    tables = [table for table in everything if table.rows]
    if not tables:
        alone = [table for table in everything if _without_mpi(table)]
        if alone:
            raise InputError(_rank_zero(alone[0], where))
        raise InputError(Problem(where, "no row with times", "the whole text of nccl-tests"))
    problems: list[Problem] = []
    tests = [_test(table, where, problems) for table in tables]
    if problems:
        raise InputError(problems)
    return tuple(test for test in tests if test is not None)


def _tables(text: str, where: str) -> Iterator[_Table]:
    named = _OPERATION.search(where) or _OPERATION.search(text)
    other = None if named else _OTHER.search(where) or _OTHER.search(text)
    table = _Table((named or other)[1] if named or other else "")  # type: ignore[index]
    for raw in text.splitlines():
        line = _LABEL.sub("", raw)
        starting, command = _STARTING.search(line), _OPERATION.search(line)
        if _SETTINGS.search(line) and table.rows:
            yield table
            table = _Table(table.operation)
        if starting or (command and not line.lstrip().startswith("# Collective test concluded")):
            if table.rows:
                yield table
                table = _Table(table.operation)
            table.operation = (starting or command)[1]  # type: ignore[index]
        elif member := _RANK.match(line):
            table.members.append((int(member[1]), member[3], member[5]))
        else:
            _add_row(table, line)
    yield table


LEAST_MICROSECONDS: Final = 1e-3
"""The shortest time that such a tool prints. [us]"""


def _add_row(table: _Table, line: str) -> None:
    match = _ROW.match(line)
    words = match[5].split() if match else []
    if match is None or len(words) not in (8, 9):
        return
    words = words[-8:]
    try:
        times = [float(words[place]) for place in (0, 1, 2, 4)]
    except ValueError:
        return
    if not all(map(math.isfinite, times)) or float(match[1]) <= 0 or times[0] < LEAST_MICROSECONDS:
        return
    table.redop = match[4] or ""
    counted = words[3:4] if table.operation == "alltoall" else (words[3], words[7])
    wrong = any(_is_wrong(word) for word in counted)
    table.rows.append(
        Timed(float(match[1]), times[0] * MICROSECOND, times[3] * MICROSECOND, times[2] * GB, wrong)
    )
    if times[1] > 1:
        table.ratio = times[2] / times[1]


def _is_wrong(word: str) -> bool:
    """Whether a column counts wrong elements, or in older versions shows an error beyond rounding.

    An all-to-all cannot be done in place: older versions call it wrong there, and it is not looked at.
    """
    try:
        return float(word) >= 1
    except ValueError:
        return False


def _test(table: _Table, where: str, problems: list[Problem]) -> NcclTest | None:
    ranks = max((rank for rank, _, _ in table.members), default=-1) + 1
    if _without_mpi(table):
        problems.append(_rank_zero(table, where))
        return None
    if len(table.members) > len({rank for rank, _, _ in table.members}):
        found = f"{len(table.members)} lines of only {ranks} ranks"
        problems.append(Problem(where, found, "one test of all ranks; build nccl-tests with MPI=1"))
        return None
    if ranks == 1:
        problems.append(Problem(where, "one rank", "a test of at least two"))
        return None
    if any(row.wrong for row in table.rows):
        problems.append(
            Problem(where, "wrong results (#wrong)", "a test whose results are right: a link is bad")
        )
        return None
    if table.operation and table.operation not in _NAMES:
        wanted = f"one of {', '.join(f'{name}_perf' for name in _NAMES)}"
        problems.append(Problem(where, f"{table.operation}_perf", wanted))
        return None
    operation = _NAMES.get(table.operation, "") or _by_ratio(table, ranks)
    if not operation or not ranks:
        missing = "the operation" if ranks else "the number of ranks"
        expected = (
            "the lines with the command and the ranks above the table, or a name such as all_gather_perf.log"
        )
        problems.append(Problem(where, f"nothing that tells {missing}", expected))
        return None
    test = NcclTest(operation, ranks, _hosts(table.members, ranks), table.members[0][2], tuple(table.rows))
    return test if _agrees(test, where, problems) else None


def _without_mpi(table: _Table) -> bool:
    """Whether several processes each believe that they are alone."""
    return len(table.members) > 1 and not any(rank for rank, _, _ in table.members)


def _rank_zero(table: _Table, where: str) -> Problem:
    expected = "one test of several ranks; build nccl-tests with MPI=1"
    return Problem(where, f"{len(table.members)} processes that are all rank 0", expected)


def _by_ratio(table: _Table, ranks: int) -> str:
    """Return the operation that bus and algorithm bandwidth give away, where only one does.

    Two ranks send as much in an all-reduce as in a plain message, so that their bandwidths tell nothing.
    """
    once = (ranks - 1) / ranks if ranks else 0.0
    if ranks > 2 and abs(table.ratio / (2 * once) - 1) < _CLOSE:
        return "all_reduce"
    reduces = table.redop not in ("none", "")
    return "reduce_scatter" if once and reduces and abs(table.ratio / once - 1) < _CLOSE else ""


def _hosts(members: Sequence[tuple[int, str, str]], ranks: int) -> int:
    return len({host for _, host, _ in members}) if len({rank for rank, _, _ in members}) == ranks else 0


def _agrees(test: NcclTest, where: str, problems: list[Problem]) -> bool:
    """Check that the largest row's bandwidth follows from its time, so that ranks and operation are right."""
    largest = max(test.rows, key=lambda row: row.nbytes)
    expected = (
        BUS_FACTOR[test.operation] * (test.ranks - 1) / test.ranks * largest.nbytes / largest.out_of_place
    )
    if not largest.bus_rate or abs(expected / largest.bus_rate - 1) < _CLOSE:
        return True
    found = f"a bus bandwidth of {largest.bus_rate / GB:.4g} GB/s"
    wanted = f"{expected / GB:.4g} GB/s, which {test.operation} on {test.ranks} ranks gives in that time"
    problems.append(Problem(where, found, wanted))
    return False
