"""The file of a sweep: lines are kept whole, a half one is cut, what is no result is left alone."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from planner.cli.journal import HEAD, Journal, line_of
from planner.errors import InputError
from tests.cases import every
from tests.unit.sweep_rows import fit, no_fit

ROWS = [fit(8, 1.0), fit(16, 0.5), no_fit(4, {"gpus": 8})]


def written(path: Path) -> bytes:
    with Journal(path) as journal:
        assert journal.rows() == {}
        for row in ROWS:
            journal.append(row)
    return path.read_bytes()


def test_rows_come_back_and_more_are_added(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    before = written(path)
    assert [json.loads(line)["case"]["gpus"] for line in before.splitlines()] == ["8", "16", "4"]
    with Journal(path) as journal:
        assert list(journal.rows().values()) == ROWS
        journal.append(fit(32, 0.25))
    assert path.read_bytes() == before + line_of(fit(32, 0.25))


def test_a_line_half_written_is_cut_wherever_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    whole = written(path)
    last = line_of(ROWS[-1])
    kept = len(whole) - len(last)
    for cut in {*range(1, len(last), 31), len(last) - 1}:
        path.write_bytes(whole[: kept + cut])
        with Journal(path) as journal:
            assert list(journal.rows().values()) == ROWS[:-1]
            journal.append(ROWS[-1])
        assert path.read_bytes() == whole


def test_a_first_line_half_written_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for cut in {*range(0, len(line_of(ROWS[0])), 31), len(HEAD) - 1, len(HEAD), len(HEAD) + 1}:
        path.write_bytes(line_of(ROWS[0])[:cut])
        with Journal(path) as journal:
            assert journal.rows() == {}
        assert path.read_bytes() == b""
    assert line_of(ROWS[0]).startswith(HEAD)


@every(
    "content",
    [b"my notes", b"my notes\n", b'{"schema": "other"}\n', b"[1]\n", b"\x00\xff\n", b"{}\n{", b"\n"],
)
def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(content)
    with Journal(path) as journal, pytest.raises(InputError, match="--force"):
        journal.rows()
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:40] + b"\n" + lines[2])
    with Journal(path) as journal, pytest.raises(InputError, match=r"out\.jsonl:2"):
        journal.rows()


def test_results_are_thrown_away_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    written(path)
    with Journal(path, afresh=True) as journal:
        assert journal.rows() == {}
    assert path.read_bytes() == b""


def test_two_sweeps_never_write_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "out.jsonl"
    with Journal(path), pytest.raises(InputError, match="no other sweep"), Journal(path):
        pass
    with Journal(path) as journal:
        assert journal.rows() == {}


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can be written"), Journal(tmp_path / "missing" / "out.jsonl"):
        pass


def test_each_row_is_on_the_disk_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    path = tmp_path / "out.jsonl"
    monkeypatch.setattr("planner.cli.journal.os.fsync", lambda file: synced.append(os.fstat(file).st_size))
    whole = written(path)
    ends = [sum(map(len, whole.splitlines(keepends=True)[:count])) for count in (1, 2, 3)]
    assert synced == ends


def test_a_full_disk_is_told_and_a_torn_line_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.jsonl"
    room = [len(line_of(ROWS[0])) + 20]
    write = os.write

    def full(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(file, data[: min(room[0], 30)])
        room[0] -= count
        return count

    with monkeypatch.context() as patch, Journal(path) as journal:
        patch.setattr("planner.cli.journal.os.write", full)
        journal.append(ROWS[0])
        with pytest.raises(InputError, match="No space left"):
            journal.append(ROWS[1])
    with Journal(path) as journal:
        assert list(journal.rows().values()) == ROWS[:1]
