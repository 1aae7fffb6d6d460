"""What stands for a cross product: every value of every axis, or all of it."""

from __future__ import annotations

from itertools import product

import pytest

from tests import deep


def test_every_value_of_every_axis_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "DEEP", False)
    axes = ("abcde", (1, 2, 3), (True, False))
    found = deep.in_turn(*axes)
    assert len(found) == 5
    for axis, values in zip(axes, zip(*found, strict=True), strict=True):
        assert set(values) == set(axis)
    assert deep.deep("some", "every") == "some"


def test_all_combinations_are_there_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "DEEP", True)
    assert deep.in_turn("ab", (1, 2, 3)) == list(product("ab", (1, 2, 3)))
    assert deep.deep("some", "every") == "every"
