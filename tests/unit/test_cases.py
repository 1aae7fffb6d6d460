"""Cases that share a test: each of them runs, each that fails is named, and none is left out in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import SHOWN, every


def outcome(test: Callable[..., None], **fixtures: Any) -> str:
    with pytest.raises(ExceptionGroup) as told:
        test(**fixtures)
    return str(told.value)


def test_each_case_runs_and_each_that_fails_is_named() -> None:
    seen = []

    @every("name, size", [("a", 1), pytest.param("b", 2, id="the second"), ("c", 3), ("d", 4)])
    def check(name: str, size: int) -> None:
        seen.append((name, size))
        assert size % 2, name
        if name == "c":
            raise KeyError(name)

    with pytest.raises(ExceptionGroup) as told:
        check()
    assert seen == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert told.value.message == "3 of 4 cases: the second, c-3, d-4"
    assert [type(one) for one in told.value.exceptions] == [AssertionError, KeyError, AssertionError]
    assert [one.__notes__ for one in told.value.exceptions] == [
        ["case the second"],
        ["case c-3"],
        ["case d-4"],
    ]


def test_all_that_fail_are_named_and_the_first_are_shown() -> None:
    @every("number", range(100))
    def check(number: int) -> None:
        pytest.fail("always")

    with pytest.raises(ExceptionGroup) as told:
        check()
    assert told.value.message == "100 of 100 cases: " + ", ".join(map(str, range(100)))
    assert len(told.value.exceptions) == SHOWN


def test_two_of_them_are_crossed() -> None:
    seen = []

    @every("letter", "ab")
    @every("number", (1, 2, 3), ids=["one", "two", "three"])
    def check(letter: str, number: int) -> None:
        seen.append((letter, number))
        assert (letter, number) != ("b", 2)

    assert outcome(check).startswith("1 of 6 cases: two-b ")
    assert sorted(seen) == [(letter, number) for letter in "ab" for number in (1, 2, 3)]


def test_equal_names_are_told_apart_and_others_are_asked_for() -> None:
    @every("value", [1.0, 1.0, {}, outcome], ids=lambda value: "nothing" if value == {} else None)
    def check(value: object) -> None:
        raise ValueError

    assert outcome(check).startswith("4 of 4 cases: value0, value1, nothing, value3 ")

    @every("value", [1.0, 1.0, {}, outcome])
    def other(value: object) -> None:
        raise ValueError

    assert outcome(other).startswith("4 of 4 cases: 1.0, 1.0-1, value2, outcome ")


def test_a_case_that_is_skipped_is_a_failure() -> None:
    @every("name", "ab")
    def check(name: str) -> None:
        if name == "b":
            pytest.skip("not here")

    assert outcome(check).startswith("1 of 2 cases: b ")


def test_each_case_has_a_folder_of_its_own(tmp_path: Path) -> None:
    @every("name", "ab")
    def check(tmp_path: Path, name: str) -> None:
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").write_text(name)

    check(tmp_path=tmp_path)
    assert sorted(one.read_text() for one in tmp_path.glob("*/file")) == ["a", "b"]


def test_none_at_all_or_one_that_is_marked_is_refused() -> None:
    for values in ([], [pytest.param(1, marks=pytest.mark.slow)], [(1, 2)]):
        with pytest.raises(ValueError, match="no case"):
            every(("one",), values)


def test_what_one_case_could_change_for_the_next_is_refused() -> None:
    def check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        raise AssertionError(name)

    with pytest.raises(ValueError, match="cases would share monkeypatch"):
        every("name", "ab")(check)


@pytest.fixture(scope="module")
def base() -> int:
    return 3


@every("name", "ab")
@pytest.mark.parametrize("number", [1, 2])
def test_fixtures_and_other_marks_are_left_to_pytest(number: int, base: int, name: str) -> None:
    assert (base, name in "ab", number in (1, 2)) == (3, True, True)
