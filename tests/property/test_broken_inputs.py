"""A sample of broken inputs, each of which ends in an answer or one message; `tests.fuzz` runs more."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.running import findings


def test_broken_inputs_end_in_an_answer_or_a_message(tmp_path: Path) -> None:
    assert [finding for finding in findings(40, tmp_path, first=10**6)] == []
