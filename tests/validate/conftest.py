"""Tests of this folder are skipped where the runners' interpreter lacks what they need."""

from __future__ import annotations

import pytest

from tests.validate.ask import has


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Import what a test needs in the runners' interpreter, which takes seconds, only where the test runs.

    Pytest's own marks come first: one that is skipped for another reason imports nothing.
    """
    for mark in item.iter_markers("needs"):
        modules, reason = mark.args
        if not has(modules):
            pytest.skip(reason)
