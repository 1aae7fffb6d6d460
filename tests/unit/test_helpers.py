"""The guards of the tests themselves: golden files that differ fail, and nothing opens a connection."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.helpers import assert_golden


def test_a_golden_file_must_be_there_and_equal(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.txt"
    with pytest.raises(AssertionError, match="is missing"):
        assert_golden(path, "one\n", update=False)
    assert_golden(path, "one\n", update=True)
    assert_golden(path, "one\n", update=False)
    with pytest.raises(AssertionError, match="differs"):
        assert_golden(path, "two\n", update=False)
    assert path.read_text() == "one\n"


def test_a_light_test_cannot_open_a_connection() -> None:
    with socket.socket() as end, pytest.raises(AssertionError, match="opened a connection"):
        end.connect(("localhost", 9))
