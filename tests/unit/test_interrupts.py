"""An interrupt that comes while something is imported waits, and is not lost."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.cli.interrupts import Terminated, raise_on_signals
from planner.deferred import deferred

SLOW = "import os, signal\nos.kill(os.getpid(), signal.{kind})\nwhole = 1\n"


@pytest.fixture
def heard() -> Iterator[None]:
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(kind) for kind in kinds]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise_on_signals()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for kind, handler in zip(kinds, before, strict=True):
        signal.signal(kind, handler)


@pytest.mark.parametrize(("kind", "error"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", Terminated)])
@pytest.mark.usefixtures("heard")
def test_an_interrupt_inside_a_deferred_import_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: type[KeyboardInterrupt]
) -> None:
    name = f"interrupted_{kind.lower()}"
    (tmp_path / f"{name}.py").write_text(SLOW.format(kind=kind))
    monkeypatch.setattr("planner.__path__", [str(tmp_path)])
    with deferred():
        exec(f"from planner import {name}")
    module = sys.modules.pop(f"planner.{name}")
    with pytest.raises(error) as raised:
        _used(module)
    assert type(raised.value) is error


def _used(module: object) -> None:
    assert module.whole == 1  # type: ignore[attr-defined]  # the file was carried out to its end
    time.sleep(5)


@pytest.mark.usefixtures("heard")
def test_elsewhere_it_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_somebody_else_hears_is_left_to_him(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        raise_on_signals()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
