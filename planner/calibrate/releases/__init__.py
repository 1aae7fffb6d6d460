"""Releases of runtimes: what a user can ask for with ``--runtime NAME@RELEASE``, a file for each runtime.

A release names what a run table would write for it; the era of that text has its traits and fitted constants,
so that a price for a release is the one with which `planner validate` compares its runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from planner.calibrate.eras import Era, find_era
from planner.calibrate.eras.record import BEFORE_HOPPER
from planner.calibrate.eras.statements import era_traits, stated_traits
from planner.calibrate.releases.family import Release, Releases
from planner.dataclasses import replace
from planner.errors import InputError, Problem, nearest
from planner.inputs.fitted import fitted
from planner.registry import find, load_family
from planner.runtimes import runtimes, runtimes_of_any_era
from planner.runtimes.family import Runtime
from planner.runtimes.traits import Traits
from planner.units import is_whole

__all__ = [
    "Release", "Releases", "era_of", "find_release", "label_of", "named_release", "named_runtime",
    "of_release",
    "plain_traits", "release_of", "releases", "title_of",
]  # fmt: skip


@cache
def releases() -> Mapping[str, Releases]:
    """Return the table of releases by the name of their runtime.

    A runtime without a file of its own here has the releases whose files can be written.
    """
    known = load_family(__name__, Releases)
    return {name: known.get(name) or _own(runtime) for name, runtime in runtimes().items()}


def _own(runtime: Runtime) -> Releases:
    """Return the releases that a runtime's record names, all priced as the runtime itself."""
    versions = runtime.versions or ("unversioned",)
    own = tuple(Release(name, "", "as its record says", files=name) for name in versions)
    return Releases(runtime.name, own, runtime.cite)


def find_release(runtime: str, text: str, where: str = "--runtime") -> Release:
    """Return the release of a runtime that a version or a container names.

    Raises
    ------
    InputError
        If there is none; the message has the nearest ones.

    Examples
    --------
    >>> find_release("megatron-bridge", "26.04.01").name, find_release("megatron-bridge", "v0.4.2").name
    ('0.4', '0.4')
    """
    known = releases()[runtime].releases
    word = text.strip().lower().removeprefix("core_").removeprefix("v")
    by_name = {spelling: release for release in known for spelling in release.spellings}
    if word in by_name:
        return by_name[word]
    minor = word.rpartition(".")[0]
    if is_whole(word.rpartition(".")[2]) and minor.count(".") == 1 and minor in by_name:
        return by_name[minor]
    names = ", ".join(
        release.name + (f" ({', '.join(release.containers)})" if release.containers else "")
        for release in known
    )
    raise InputError(
        Problem(where, repr(f"{runtime}@{text}"), f"a release of {runtime}: {names}", _near(word, by_name))
    )


_VERSION: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?![\w])")
"""A version or a container's number in a text."""


@cache
def named_release(runtime: str, text: str) -> Release | None:
    """Return the release of a runtime whose version or container a framework's text says; None without one.

    Examples
    --------
    >>> named_release("megatron-bridge", "megatron-bridge 26.02, nccl 2.29").name
    '0.3'
    >>> named_release("megatron-bridge", "megatron-bridge") is None
    True
    """
    known = releases()[runtime].releases
    by_name = {spelling: release for release in known for spelling in release.spellings}
    by_name |= {release.framework.lower(): release for release in known if release.framework}
    if text.strip().lower() in by_name:
        return by_name[text.strip().lower()]
    words = _VERSION.findall(text)
    words += [word.rpartition(".")[0] for word in words if word.count(".") > 1]
    return next((by_name[word] for word in words if word in by_name), None)


def _near(word: str, known: Mapping[str, Release]) -> str:
    """Return the releases next to a number before and after it, or those spelled alike."""
    number = _number(word)
    if number is None:
        return nearest(word, known)
    kind = number[0] >= 20
    numbers = {name: _number(name) for name in known}
    alike = sorted(
        (found, name) for name, found in numbers.items() if found is not None and (found[0] >= 20) == kind
    )
    below = [name for found, name in alike if found < number][-1:]
    above = [name for found, name in alike if found > number][:1]
    return ", ".join(below + above)


def _number(name: str) -> tuple[int, ...] | None:
    parts = name.split(".")
    return tuple(map(int, parts)) if all(is_whole(part) for part in parts) else None


def release_of(runtime: Runtime) -> Release:
    """Return the release of a runtime, the newest where it names none."""
    own = releases()[runtime.name]
    return next((one for one in own.releases if one.name == runtime.release), own.newest)


def title_of(runtime: Runtime) -> str:
    """Return the title of a runtime, with its release where that is not the newest."""
    release = release_of(runtime)
    newest = releases()[runtime.name].newest
    return runtime.title if release is newest else f"{runtime.title} {release.name}"


def label_of(runtime: Runtime) -> str:
    """Return the name of a runtime, with its release where that is not the newest."""
    release = release_of(runtime)
    newest = releases()[runtime.name].newest
    return runtime.name if release is newest else f"{runtime.name}@{release.name}"


def era_of(release: Release, accelerator: str, zero: str = "") -> Era | None:
    """Return the era of a release on an accelerator; None where it is priced as the runtime itself."""
    if not release.framework:
        return None
    return find_era(release.framework, accelerator, None, zero)


def of_release(name: str, release: Release, accelerator: str, precision: str) -> Runtime:
    """Return a runtime as it was in a release.

    ``accelerator``: canonical name of what it runs on: recipes differ by it; ``precision``: in fp16 some
    releases keep other dtypes.

    Raises
    ------
    InputError
        If it does not run there.
    """
    if release.before_hopper and not _is_old(accelerator):
        newer = [one.name for one in releases()[name].releases if not one.before_hopper][-1]
        found = f"{name}@{release.name} on {accelerator}"
        raise InputError(Problem("--runtime", repr(found), "a release since Hopper", f"{name}@{newer}"))
    era = era_of(release, accelerator)
    if era is None:
        return replace(runtimes()[name], release=release.name)
    text = release.framework.lower()
    said = stated_traits(era, text, None, None, accelerator, release.sequence_parallel)
    plain = runtimes_of_any_era()[name]
    traits = era_traits(plain.traits, era, precision, said)
    found_constants: dict[str, Any] = {
        constant.name: constant.value
        for scope, owner in (("runtime", name), ("era", era.name))
        for constant in fitted(scope, owner)
        if constant.name not in said
    }
    traits = traits.with_values(**found_constants)
    return replace(plain, traits=traits, release=release.name, era=era.name)


def _is_old(accelerator: str) -> bool:
    return bool(re.search(BEFORE_HOPPER, accelerator.lower()))


def plain_traits(runtime: Runtime, accelerator: str, precision: str) -> Traits:
    """Return the traits of a runtime's release before a user changed any."""
    if not runtime.release:
        return runtimes()[runtime.name].traits
    return of_release(runtime.name, release_of(runtime), accelerator, precision).traits


def named_runtime(text: str, accelerator: str, precision: str, label: str = "--runtime") -> Runtime:
    """Return the runtime that ``NAME`` or ``NAME@RELEASE`` means on an accelerator.

    Raises
    ------
    InputError
        If the name or the release is unknown.
    """
    name, _, release = text.partition("@")
    runtime = find(runtimes(), name.strip(), label)
    chosen = find_release(runtime.name, release, label) if release else releases()[runtime.name].newest
    return of_release(runtime.name, chosen, accelerator, precision)
