"""What workers tell of the tests that they run."""

from __future__ import annotations

import pytest

from tests.cases import every
from tests.workers import worth_telling


def report(when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport("file.py::test", ("file.py", 0, "test"), {}, outcome, None, when)  # type: ignore[arg-type]


@every(
    ("outcomes", "told"),
    [
        (("passed", "passed", "passed"), ["call"]),
        (("passed", "failed", "passed"), ["call"]),
        (("passed", "skipped", "passed"), ["call"]),
        (("passed", "passed", "failed"), ["call", "teardown"]),
        (("failed", None, "passed"), ["setup"]),
        (("skipped", None, "passed"), ["setup"]),
    ],
)
def test_a_test_is_told_once_and_whatever_did_not_pass_too(
    outcomes: tuple[str | None, ...], told: list[str]
) -> None:
    phases = zip(("setup", "call", "teardown"), outcomes, strict=True)
    assert [one.when for one in worth_telling(report(when, own) for when, own in phases if own)] == told
