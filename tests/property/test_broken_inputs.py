"""A sample of broken inputs and of kills: each ends in an answer or one message, in a folder whole or absent.

BROKEN_INPUTS and KILLS ask for more; `make fuzz` runs thousands.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.fuzz.kills import killed
from tests.fuzz.running import findings


def test_broken_inputs_end_in_an_answer_or_a_message(tmp_path: Path) -> None:
    count = int(os.environ.get("BROKEN_INPUTS", "40"))
    assert [finding for finding in findings(count, tmp_path, first=10**6)] == []


def test_a_command_that_is_killed_leaves_a_folder_whole_or_none(tmp_path: Path) -> None:
    assert killed(int(os.environ.get("KILLS", "2")), tmp_path) == []
