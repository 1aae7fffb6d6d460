"""Whatever a user names is read up to a limit and ends in one message: devices, pipes, endless lines."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import is_plan_file
from planner.inputs import bounded
from planner.inputs.bounded import LINE_BYTES, TABLE_BYTES, decoded, read_bytes, table_lines

posix = pytest.mark.skipif(os.name != "posix", reason="pipes and devices")


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full"])
def test_an_endless_device_is_read_up_to_the_limit(device: str) -> None:
    with pytest.raises(InputError, match="more than 1,000 bytes"):
        read_bytes(Path(device), 1000)
    with pytest.raises(InputError, match=f"more than {TABLE_BYTES:,} bytes"), table_lines(Path(device)):
        pass


@posix
def test_an_empty_device_is_empty() -> None:
    assert read_bytes(Path(os.devnull)) == b""


@posix
def test_a_pipe_without_a_writer_is_refused_and_one_with_a_slow_writer_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(bounded, "WRITER_S", 0.1)
    with pytest.raises(InputError, match="a pipe to which nobody writes"):
        read_bytes(pipe)
    monkeypatch.setattr(bounded, "WRITER_S", 10.0)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 300_000,))
    writer.start()
    assert read_bytes(pipe) == b"x" * 300_000
    writer.join()


def test_standard_input_is_bounded_and_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\n" * 5000)))
    with pytest.raises(InputError, match="standard input: found more than 1,000 bytes"):
        read_bytes(Path("-"), 1000)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input: found it is closed"):
        read_bytes(Path("-"))


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"id\n" + b"x" * (LINE_BYTES + 1))
    with pytest.raises(InputError, match=r"runs.csv:2: found a line of 1,000,001 bytes"), table_lines(path):
        pass


def test_bytes_of_another_encoding_are_named_with_their_line() -> None:
    with pytest.raises(InputError, match=r"f:2: found byte 0xe9"):
        decoded(b"a\n\xe9", "f")


def test_only_the_head_of_a_file_is_read_to_see_whether_it_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(6_000_000_000)
    assert not is_plan_file(path)
