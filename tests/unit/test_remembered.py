"""Answers that are remembered by the identity of what is asked about."""

from __future__ import annotations

from planner.remembered import remembered

ASKED: list[tuple[str, int]] = []


@remembered(most=2)
def joined(words: list[str], times: int) -> str:
    ASKED.append((words[0], times))
    return "".join(words) * times


def test_each_question_is_worked_out_once_until_there_are_too_many() -> None:
    first, equal = ["a"], ["a"]
    ASKED.clear()
    assert [joined(first, 2), joined(first, 2)] == ["aa", "aa"]
    assert ASKED == [("a", 2)]
    assert joined(equal, 2) == "aa"
    assert ASKED == [("a", 2)] * 2, "an equal record is another one"
    assert joined(first, 3) == "aaa"
    assert joined(first, 2) == "aa"
    assert ASKED == [("a", 2), ("a", 2), ("a", 3), ("a", 2)], "a third answer makes room"


def test_a_record_that_is_gone_lends_its_identity_to_nobody() -> None:
    assert [joined([letter], 1) for letter in "abcdef"] == list("abcdef")
