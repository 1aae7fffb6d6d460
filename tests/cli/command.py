"""The command line inside this process: what it prints, where, and its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from planner.cli.app import main


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on standard output; anything beside it is an error."""
        return json.loads(self.out, parse_constant=_refuse)


def planner_in(folder: Path, *arguments: str) -> Done:
    """Run a command in a folder."""
    with contextlib.chdir(folder):
        return planner(*arguments)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} in a JSON document")


@cache
def once(*arguments: str) -> Done:
    """Run a command that writes no files, once for all tests that ask for the same."""
    return planner(*arguments)


def planner(*arguments: str) -> Done:
    """Run ``planner`` with ``arguments`` as a user in a pipe would."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["planner", *arguments]),
        mock.patch.object(sys, "warnoptions", ["error"]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
