"""Imports at the top of a file that are carried out when a module is first used: help costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Final


class _Broken(ModuleType):
    """A module whose file raised: whoever asks it for something is told that error.

    CPython asks a module for its ``__spec__`` first and drops what that raises
    (``import_ensure_initialized``); what is left would read "cannot import name".
    """

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__dict__"):
            return super().__getattribute__(name)
        raise self.__dict__["raised"]


class _Loader(SourceFileLoader):
    """Carries out a file, and keeps what it raises."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except BaseException as error:
            module.__dict__["raised"] = _told(error, module.__name__)
            module.__class__ = _Broken
            raise


def _told(error: BaseException, module: str) -> BaseException:
    """Return an error as it is raised again: a missing attribute would be taken for the name asked for."""
    if not isinstance(error, AttributeError):
        return error
    told = ImportError(f"{module} could not be imported: {error}")
    told.__cause__ = error
    return told


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
        if spec is not None and spec.submodule_search_locations is None:
            if isinstance(spec.loader, SourceFileLoader):
                spec.loader = LazyLoader(_Loader(spec.loader.name, spec.loader.path))
            elif spec.loader is not None:
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
