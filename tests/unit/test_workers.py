"""What workers tell of the tests that they run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.cases import every
from tests.workers import Worker, worth_telling


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


def node(kind: type, path: str, *above: Any) -> Any:
    made = mock.MagicMock(spec=kind, path=Path(path))
    made.listchain.return_value = [*above, made]
    return made


def turned(worker: Worker, collector: Any, found: list[Any]) -> list[Any]:
    report = mock.Mock(result=found)
    run = worker.pytest_make_collect_report(collector)
    next(run)
    with contextlib.suppress(StopIteration):
        run.send(report)
    return list(report.result)


@every("number", [0, 1])
def test_a_file_that_is_named_keeps_its_examples_before_its_tests_and_others_their_order(number: int) -> None:
    """In every worker: they must agree on the order."""
    worker = Worker(number)
    session, folder = node(pytest.Session, "."), node(pytest.Dir, "tests")
    parts = [node(pytest.Module, f"tests/{name}.py", session, folder) for name in ("a", "a", "b", "c")]
    examples, tests, other, _ = parts
    in_folder = turned(worker, folder, parts)
    asked = [other, *(one for one in in_folder if one in (examples, tests))]  # as in: pytest b.py a.py
    order = turned(worker, session, asked)
    items = [node(pytest.Item, str(one.path), *one.listchain()) for one in order]
    expected = [items[order.index(one)] for one in (other, examples, tests)]
    worker.pytest_collection_modifyitems(items)
    assert items == expected
