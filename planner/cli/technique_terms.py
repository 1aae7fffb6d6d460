"""What techniques and runtimes are, in the words of their own files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

from planner import runtimes, techniques
from planner.registry import member_modules
from planner.runtimes import libraries

FAMILIES: Final = (
    *("methods", "precision", "optimizers", "settings", "offload", "recompute", "schedules", "context"),
    *("layouts", "recovery", "sync", "compress", "feedback", "states", "scaling_laws"),
)


def terms() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield name, other names and meaning of techniques, searched settings, runtimes and libraries."""
    packages: list[Any] = [importlib.import_module(f"{techniques.__name__}.{name}") for name in FAMILIES]
    for package in (*packages, runtimes, libraries):
        for name in member_modules(package):
            module = importlib.import_module(f"{package.__name__}.{name}")
            entry = module.ENTRY
            first = " ".join((module.__doc__ or "").split("\n\n")[0].replace("``", "").split())
            yield entry.name, entry.aliases, getattr(entry, "about", first).rstrip(".")
