"""Help costs what an empty application's does, a search eight times that at most."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.speed.startup import start_seconds


def test_help_and_a_small_search_take_little_beside_an_empty_application(tmp_path: Path) -> None:
    """Ratios, so that the machine does not matter; `make bench` prints the seconds.

    The least times of five to twenty rounds: a quiet machine needs the fewest.
    """
    for empty, help_, found in itertools.islice(start_seconds(tmp_path), 4, None):
        if help_ <= 1.2 * empty and found <= 8 * empty:
            return
    pytest.fail(f"help {help_ / empty:.2f} (at most 1.2), a search {found / empty:.2f} (at most 8)")
