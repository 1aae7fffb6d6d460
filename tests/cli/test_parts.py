"""Work in parts is the work itself, whatever becomes of the processes that do it."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from planner.calibrate.constants import shipped_values
from planner.calibrate.overlay import predictions_of
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.table import read_runs
from planner.calibrate.validate import json_parts, validate
from planner.cli import parts
from planner.cli.parts import in_parts
from tests.helpers import ROOT

HERE = os.getpid()


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cores, and parts of two pieces."""
    monkeypatch.setattr("planner.sweep.executors.family.cores", lambda: 3)
    monkeypatch.setattr(parts, "LEAST", 2)


def doubled(part: Sequence[int]) -> tuple[int, list[int]]:
    return os.getpid(), [2 * one for one in part]


@pytest.mark.usefixtures("three")
def test_each_core_has_a_part_and_results_keep_their_order() -> None:
    found = in_parts(doubled, range(8))
    assert [values for _, values in found] == [[0, 2, 4], [6, 8, 10], [12, 14]]
    assert len({process for process, _ in found}) == 3
    assert found[0][0] == HERE


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_few_pieces_are_one_part(pieces: int) -> None:
    assert in_parts(doubled, range(pieces)) == [(HERE, [2 * one for one in range(pieces)])]


@pytest.mark.usefixtures("three")
def test_a_part_whose_process_is_killed_or_fails_is_done_here() -> None:
    def worked(part: Sequence[int]) -> list[int]:
        if os.getpid() != HERE and 3 in part:
            os.kill(os.getpid(), signal.SIGKILL)
        if os.getpid() != HERE and 6 in part:
            raise MemoryError
        return list(part)

    assert in_parts(worked, range(8)) == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.usefixtures("three")
def test_a_fault_ends_the_copies_too() -> None:
    def failing(part: Sequence[int]) -> None:
        if os.getpid() == HERE:
            raise ValueError("no")
        signal.pause()

    with pytest.raises(ValueError, match="no"):
        in_parts(failing, range(8))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.usefixtures("three")
def test_a_table_in_parts_is_the_whole_table(tmp_path: Path) -> None:
    """Rows that are skipped, batches that are cut in two and marks are all told as they are of the whole."""
    text = (ROOT / "tests" / "measured" / "runs" / "bloom.csv").read_text()
    table = tmp_path / "runs.csv"
    table.write_text(text + "".join(f"broken{line}\n" for line in range(3)))
    told = []
    for cut in (in_parts, lambda work, chunk: [work(chunk)]):
        with table.open(newline="") as lines:
            rows = read_runs(lines).rows
            found = validate(rows, shipped_catalogue(), predictions_of(shipped_values()), cut)
        told.append("".join(json_parts(found)))
    assert told[0] == told[1]
