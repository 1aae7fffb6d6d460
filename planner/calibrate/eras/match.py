"""Which era a run's text means: the most particular, whatever the order of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from planner.calibrate.eras.record import BEFORE_HOPPER, Era, EraProgram, NamedEra, Where
from planner.calibrate.eras.words import Span, inside, spans, version_after, year_after
from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """What a run says of its framework, and on what it ran."""

    framework: str
    accelerator: str
    """In lower case."""
    flash_attention: bool
    """Whether it states some."""
    sharded: bool
    """Whether parameters are."""


@dataclass(frozen=True)
class Match:
    """A program that a text names, its longest word in it, and the era that is meant of it."""

    program: EraProgram
    span: Span
    era: Era
    rank: tuple[int, bool, bool]

    @property
    def length(self) -> int:
        """Letters of the word."""
        return self.span[1] - self.span[0]


def matches(
    framework: str, gpu: str, flash_attn: int | None, zero: str, programs: Sequence[EraProgram]
) -> list[Match]:
    """Return what a text can mean, what is meant first.

    1. A word does not count inside a longer word of another program: "megatron" in "megatron-bridge".
    2. Of two programs the one that is ``over`` the other is meant.
    3. Of programs that know nothing of each other, the one with the longer word, then the one named first.
    4. Of a program's eras whose conditions hold, the one with the most conditions; of as many, one that names
       a version, then one that names a year.
    """
    text = Text(framework.lower(), gpu.lower(), bool(flash_attn), zero == "3" or zero.startswith("hsdp"))
    named = {program.name: spans(program.words, text.framework) for program in programs}
    free = {name: _free(own, name, named) for name, own in named.items() if own}
    found = [
        _best(program, max(free[program.name], key=_longest), text)
        for program in programs
        if free.get(program.name)
    ]
    return _ordered([match for match in found if match is not None], programs)


def _longest(span: Span) -> tuple[int, int]:
    return span[1] - span[0], -span[0]


def _free(own: list[Span], name: str, named: dict[str, list[Span]]) -> list[Span]:
    """Return the places of a program's words that are not inside a longer word of another program."""
    others = [span for other, found in named.items() if other != name for span in found]
    return [a for a in own if not any(b[0] <= a[0] and a[1] <= b[1] and a != b for b in others)]


def _best(program: EraProgram, span: Span, text: Text) -> Match | None:
    """Return the most particular era of a program whose conditions a text meets."""
    held = [
        Match(program, span, era, where.rank)
        for era in program.eras
        for where in era.where
        if _holds(where, text, span)
    ]
    return max(held, key=lambda match: match.rank, default=None)


def _holds(where: Where, text: Text, span: Span) -> bool:
    old = bool(re.search(BEFORE_HOPPER, text.accelerator))
    return (
        _has(where, text, span)
        and not _has_any(where.unless, text, span)
        and not (where.alone and not _alone(text.framework, span))
        and (where.generation is None or old == (where.generation == "before-hopper"))
        and (not where.accelerators or any(fnmatchcase(text.accelerator, one) for one in where.accelerators))
        and not (where.flash_attention is False and text.flash_attention)
        and not (where.sharded and not text.sharded)
    )


def _alone(framework: str, span: Span) -> bool:
    return framework.strip() == framework[slice(*span)]


def _has(named: NamedEra, text: Text, span: Span) -> bool:
    """Whether a text has what is asked for: of each kind that is, one."""
    return all(_kinds(named, text, span))


def _has_any(named: NamedEra, text: Text, span: Span) -> bool:
    return any(_kinds(named, text, span))


def _kinds(named: NamedEra, text: Text, span: Span) -> list[bool]:
    """Return whether a text has one of the words, versions and years, for each kind that is asked for."""
    asked = []
    if named.words:
        asked.append(bool(spans(named.words, text.framework)))
    if named.versions:
        version = version_after(text.framework, span[1])
        asked.append(version is not None and inside(version, named.version_ranges))
    if named.years:
        year = year_after(text.framework, span[1])
        asked.append(year is not None and inside(year, named.year_ranges))
    return asked


def _under(programs: Sequence[EraProgram]) -> dict[str, set[str]]:
    """Return the programs that each goes before, also by way of others."""
    direct = {program.name: set(program.over) for program in programs}
    under: dict[str, set[str]] = {}
    for name in direct:
        reached: set[str] = set()
        queue = [name]
        while queue:
            more = direct.get(queue.pop(), set()) - reached
            reached |= more
            queue += more
        under[name] = reached
    return under


def _ordered(found: list[Match], programs: Sequence[EraProgram]) -> list[Match]:
    """Return matches, those over others first, then by the length of their word and its place."""
    under = _under(programs)
    rest, ordered = found, []
    while rest:
        names = {match.program.name for match in rest}
        top = [m for m in rest if not any(m.program.name in under[name] for name in names)] or rest
        first = max(top, key=lambda match: _longest(match.span))
        ordered.append(first)
        rest = [match for match in rest if match is not first]
    return ordered
