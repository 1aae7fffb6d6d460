"""What techniques and runtimes are, in the words of their own files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final

from planner.registry import member_modules

FAMILIES: Final = (
    *("methods", "precision", "optimizers", "settings", "offload", "recompute", "schedules", "context"),
    *("layouts", "recovery", "sync", "compress", "feedback", "states", "scaling_laws"),
    *("engines", "attention", "losses", "allocators", "checkpointing", "rings", "tensor", "dispatchers"),
    *("experts", "routers", "norms", "adapters"),
)


def terms() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield name, other names and meaning of techniques, searched settings, runtimes and libraries."""
    packages = [f"planner.techniques.{name}" for name in FAMILIES]
    for package in (*packages, "planner.runtimes", "planner.runtimes.libraries"):
        for name in member_modules(package):
            module = importlib.import_module(f"{package}.{name}")
            entry = module.ENTRY
            first = " ".join((module.__doc__ or "").split("\n\n")[0].replace("``", "").split())
            yield entry.name, entry.aliases, getattr(entry, "about", first).rstrip(".")
