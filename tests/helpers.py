"""What tests share: the project's root, the command line as a user runs it, golden files."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@cache
def parsed_text(source: str) -> ast.Module:
    """Return the tree of a source, which is parsed once for all tests that read sources."""
    return ast.parse(source)


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a source file."""
    return parsed_text(path.read_text(encoding="utf-8"))


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a tree's nodes as `ast.walk` does, in half the time."""
    found = [tree]
    for node in found:
        for name in node._fields:
            part = getattr(node, name, None)
            if isinstance(part, ast.AST):
                found.append(part)
            elif isinstance(part, list):
                found += [one for one in part if isinstance(one, ast.AST)]
    return found


@cache
def _walked(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    found: dict[type[ast.AST], list[ast.AST]] = {}
    for node in walk(parsed(path)):
        found.setdefault(type(node), []).append(node)
    return found


def nodes(path: Path, *kinds: type[ast.AST]) -> list[Any]:
    """Return the nodes of some classes in a source file, which is walked once for all tests."""
    known = _walked(path)
    return [node for kind in kinds for node in known.get(kind, ())]


def package_files(package: Path = ROOT / "planner") -> list[Path]:
    """Return the source files of a package."""
    return sorted(package.rglob("*.py"))


def user_environment(home: Path, pythonpath: Path = ROOT) -> dict[str, str]:
    """Return the environment of a user with a plain pipe of 80 columns and an empty home."""
    kept = {
        name: value for name, value in os.environ.items() if name in {"PATH", "TMPDIR", "LD_LIBRARY_PATH"}
    }
    return kept | {
        "COLUMNS": "80",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(pythonpath),
        "PYTHONUNBUFFERED": "1",
    }


def run_planner(*arguments: str, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``planner`` with ``arguments`` in the folder ``cwd``, as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        cwd=cwd,
        env=user_environment(cwd),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def assert_golden(path: Path, text: str, update: bool) -> None:
    """Compare ``text`` with the golden file, or write it there where an update was asked for."""
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: run `make golden` and read what it writes"
    known = path.read_text(encoding="utf-8")
    first = next(
        (pair for pair in zip(known.splitlines(), text.splitlines(), strict=False) if len(set(pair)) > 1), ""
    )
    assert text == known, f"{path} differs: run `make golden` and read the diff; first {first}"


def wait_until_busy(process: subprocess.Popen[str], seconds: float = 1.2) -> None:
    """Wait until a process has worked for some seconds of processor time: it is past its imports then."""
    used, clock = Path(f"/proc/{process.pid}/stat"), os.sysconf("SC_CLK_TCK")
    if not used.is_file():
        time.sleep(2 * seconds)
        return
    while process.poll() is None and sum(map(int, used.read_text().split()[13:15])) < seconds * clock:
        time.sleep(0.02)


def hears_interrupts() -> None:
    """Take SIGINT as it is usual: what a shell without job control starts behind itself ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
