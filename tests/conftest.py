"""Options and fixtures of all tests: golden files, repeatable property tests, no network."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import just

from tests.helpers import assert_golden
from tests.searched_once import SHARED, Switch, alone, changes_planner, forget_all, searched_once
from tests.workers import Worker

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")

NEEDS_SOCKETS = ("ray", "browser", "torch", "validate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


class ExamplesAlone:
    """Looks for examples in docstrings only where a file has some: a sixth of the package's."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Return what is collected of a file without a search for examples that are not there."""
        found = yield
        if file_path.suffix != ".py" or ">>>" in file_path.read_text(encoding="utf-8"):
            return found
        return [one for one in found if type(one) is pytest.Module]


def pytest_configure(config: pytest.Config) -> None:
    """Make no passes over all objects while tests are collected: what they make stays to the end."""
    gc.disable()
    _first_draw()
    config.pluginmanager.register(ExamplesAlone())
    if (own := getattr(config, "workerinput", None)) is not None:
        config.pluginmanager.register(Worker(int(own["workerid"].removeprefix("gw"))))


@settings(max_examples=1)
@given(just(None))
def _first_draw(_: None) -> None:
    """Draw nothing: with the first draw Hypothesis looks who else has its generators, among all objects."""


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later passes."""
    gc.freeze()
    gc.set_threshold(200_000)
    gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave programs and helpers beside the tests alone: only the package has doctests."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file; ``--update-golden`` writes the file first."""
    update = bool(request.config.getoption("--update-golden"))
    return lambda path, text: assert_golden(path, text, update)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Share searches and refuse connections, but for tests that say otherwise; fixtures take longer."""
    SHARED.on = not changes_planner(item)
    if not SHARED.on:
        forget_all()
    ONLINE.on = any(item.get_closest_marker(name) for name in NEEDS_SOCKETS)


def pytest_runtest_teardown() -> None:
    """Leave nothing to what is tested outside this folder."""
    if not SHARED.on:
        forget_all()
    SHARED.on, ONLINE.on = False, True


@pytest.fixture(autouse=True, scope="session")
def _around_all() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        patched.setenv("NO_COLOR", "1")
        patched.setattr("planner.search.optimise._searched", searched_once)
        patched.setattr(socket.socket, "connect", _connect)
        for name in ("setitem", "delitem", "delattr", "setattr"):
            patched.setattr(pytest.MonkeyPatch, name, alone(getattr(pytest.MonkeyPatch, name)))
        yield


ONLINE = Switch()
_CONNECT = socket.socket.connect


def _connect(own: socket.socket, address: Any) -> None:
    if not ONLINE.on:
        raise AssertionError(f"a light test opened a connection to {address}")
    _CONNECT(own, address)
