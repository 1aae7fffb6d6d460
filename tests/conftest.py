"""Options and fixtures of all tests: golden files, repeatable property tests, no network."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers import assert_golden
from tests.searched_once import changes_planner, searched_once

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
    config.pluginmanager.register(ExamplesAlone())


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


@pytest.fixture(autouse=True)
def _searched_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not changes_planner(request, own={"_searched_once", "_plain_terminal", "_no_network"}):
        monkeypatch.setattr("planner.search.optimise._searched", searched_once)


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(request.node.get_closest_marker(name) for name in NEEDS_SOCKETS):
        return

    def refuse(_socket: socket.socket, address: object) -> None:
        raise AssertionError(f"a light test opened a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
