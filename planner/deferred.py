"""Imports at the top of a file that are carried out when a module is first used: help costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final


class _Finder:
    """Finds the modules of this package, to be executed when their first attribute is asked for."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("planner."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        # A package is imported at once: who looks for its modules asks for its path, which would load it.
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
            spec.loader = LazyLoader(spec.loader)
        return spec


_FINDER: Final = _Finder()


@contextmanager
def deferred() -> Iterator[None]:
    """Import the package's modules that are named inside when they are first used; others at once.

    ``from package import module`` is deferred, ``from module import name`` is not.
    """
    sys.meta_path.insert(0, _FINDER)
    try:
        yield
    finally:
        sys.meta_path.remove(_FINDER)
