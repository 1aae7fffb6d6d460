"""What is told on standard error while work goes on: a bar on a terminal, lines where asked for."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from planner.cli.printable import to_stderr

PATIENCE: Final = 1.0
"""Seconds of silence before a bar appears. [s]"""


class Progress:
    """A bar that appears after a second, on a terminal alone, however seldom the work tells of itself.

    ``verbose``: whether each step is told on a line of its own.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self.started = time.monotonic()
        self._told = (0.0, "working")
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True
        self._over = False
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._drawn():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._bar is not None:
                self._bar.stop()

    def __call__(self, share: float, doing: str) -> None:
        """Tell the share done and what is being done; a share of zero is one that nobody knows."""
        self._told = (share, doing)
        if self.verbose:
            self.tell(f"{time.monotonic() - self.started:6.2f} s  {share:4.0%}  {doing}")
        elif self._drawn() and time.monotonic() - self.started > PATIENCE:
            self._appear()

    def _drawn(self) -> bool:
        return not (self.quiet or self.verbose) and sys.stderr.isatty()

    def _appear(self) -> None:
        """Draw what was told last, unless the work is over."""
        with self._lock:
            if not self._over:
                self._draw(*self._told)

    def tell(self, line: str) -> None:
        """Write a line, unless quiet."""
        if not self.quiet:
            to_stderr(line)

    def _draw(self, share: float, doing: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                BarColumn(),
                TextColumn("{task.fields[done]} {task.description}"),
                TimeElapsedColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(doing, total=None, done="")
            self._bar.start()
        known = {"total": 1.0, "done": f"{share:4.0%}"} if share else {"total": None, "done": ""}
        self._bar.update(self._task, completed=share, description=doing, **known)
