"""What the workers of ``pytest -n`` do otherwise: they share the rewriting of assertions, and say less."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest
from _pytest.runner import runtestprotocol


class Worker:
    """A worker that tells of each test once, and imports its files in an order of its own.

    Of a test that passes, five messages of six say nothing new; they cost more than most tests.

    Two workers that import the same files in the same order both rewrite the assertions of each, 15 s on a
    fresh checkout: where one begins at the end, it finds half of them written. The tests keep their order,
    in which all workers must agree.

    Parameters
    ----------
    number : int
        From 0 on: odd ones begin at the end.
    """

    def __init__(self, number: int) -> None:
        self.backwards = number % 2 == 1
        self._asked: dict[pytest.Collector | pytest.Item, int] = {}
        self._places: dict[pytest.Collector | pytest.Item, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn the files of a folder round."""
        report = yield
        if self.backwards and isinstance(collector, (pytest.Session, pytest.Dir, pytest.Package)):
            found = list(report.result or ())
            if isinstance(collector, pytest.Session):
                self._ask(found)
            else:
                self._places |= {one: place for place, one in enumerate(found)}
            report.result = found[::-1]
        return report

    def _ask(self, found: list[pytest.Item | pytest.Collector]) -> None:
        """Keep the order of what was asked for; one with examples is two, which its folder has turned."""
        first: dict[object, int] = {}
        for place, one in enumerate(found):
            self._asked[one] = first.setdefault(one.path if one in self._places else one, place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Bring the tests back into their order; those of a file have kept theirs."""
        if self.backwards:
            items.sort(key=self._place)

    def _place(self, item: pytest.Item) -> list[int]:
        """Return where what was asked for comes, and then each folder and file below it."""
        found: list[int] = []
        for one in reversed(item.listchain()):
            if one in self._asked:
                return [self._asked[one], self._places.get(one, 0), *reversed(found)]
            found += [self._places[one]] if one in self._places else []
        return found[::-1]

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test and tell what is worth telling."""
        for report in worth_telling(runtestprotocol(item, log=False, nextitem=nextitem)):
            item.ihook.pytest_runtest_logreport(report=report)
        return True


def worth_telling(reports: Iterable[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return the report of the test itself, and of its start and end where they did not pass."""
    return [report for report in reports if report.when == "call" or not report.passed]
