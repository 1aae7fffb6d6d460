"""``planner glossary``: what a word of an answer means, from the one list of names."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

import typer

from planner.cli.options import Format, FormatOption
from planner.cli.output import emit_document, emit_rows
from planner.deferred import deferred
from planner.errors import nearest
from planner.fields import FIELDS
from planner.question.reading import Reading

with deferred():
    from planner.cli import tables, technique_terms
    from planner.inputs import shipped

_ROW: Final = re.compile(r"^\|(.+)\|$")
_STANDS_FOR: Final = re.compile(r" (?:the )?`(\w+)`")
_MARKS: Final = re.compile(r"[`*]")
_NUMBERED: Final = re.compile(r"^([a-z]+)\d+$|^([a-z/-]+):[\d.,]+%?$|^([a-z]+/)\d+$")


class GlossaryEntry(NamedTuple):
    """A line of the glossary: names, unit, meaning, heading, and the name that it stands for."""

    names: tuple[str, ...]
    unit: str
    means: str
    section: str
    stands_for: str


def glossary(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="What is looked up, as an answer writes it: mb2, MFU, zero.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """Explain the terms of an answer, with their units; all of them if no word is given.

    A word may carry its number, as in a layout: tp4, mb2, zero1, GiB/80. Traits for --set are explained too.
    """
    known = {name.lower(): name for entry in entries() for name in entry.names}
    reading, found = Reading(), list[GlossaryEntry]()
    for word in words or ():
        hits = looked_up(word)
        if not hits:
            near = nearest(plain(word), {name: name for name in known})
            reading.fault("WORD", repr(word), "a word of the glossary (`planner glossary` lists them)", near)
        hits += [whole for one in hits if one.stands_for for whole in meaning(one.stands_for)]
        found += [one for one in dict.fromkeys(hits) if one not in found]
    reading.finish()
    rows = [_row(one) for one in (found if words else entries())]
    if output is Format.json:
        emit_document([one._asdict() | {"names": list(one.names)} for one in (found if words else entries())])
    elif output is Format.table and words:
        sys.stdout.writelines(f"{_line(one)}\n" for one in found)
    else:
        emit_rows(rows, output)


def looked_up(word: str) -> list[GlossaryEntry]:
    """Return what a word of an answer means, by any of the lists that have it."""
    kept = word.strip().lower().removeprefix("offload-").partition(":")[0]
    return meaning(word) or trait_meaning(word) or option_meaning(word) or technique_meaning(kept)


def plain(word: str) -> str:
    """Return a word without the number that an answer puts behind it.

    Examples
    --------
    >>> plain("tp4"), plain("offload-activations:63"), plain("GiB/80"), plain("MFU")
    ('tp', 'offload-activations', 'gib/', 'mfu')
    """
    text = word.strip().strip("-").lower()
    match = _NUMBERED.match(text)
    return next(filter(None, match.groups())) if match else text


def meaning(word: str) -> list[GlossaryEntry]:
    """Return the lines that a word has; a column with another number after its stroke is the same column."""
    said = {word.strip().lower(), plain(word), plain(word).replace("-", "_"), plain(word).rstrip("/")}
    return [one for one in entries() if said & {form for name in one.names for form in _forms(name)}]


def trait_meaning(word: str) -> list[GlossaryEntry]:
    """Return what a trait of a runtime means, by the name that ``--set`` takes."""
    name = tables.trait_name(word.strip().lower().replace("-", "_"))
    if name not in tables.TRAITS:
        return []
    trait = tables.TRAITS[name]
    own = str(trait.default).lower() or "nothing"
    values = tables.expected(name)
    means = f"{trait.meaning} It is {values}; {own} unless the runtime or its release has another."
    return [GlossaryEntry((name,), trait.unit, means, "Traits of a runtime", "")]


def option_meaning(word: str) -> list[GlossaryEntry]:
    """Return what an option means, by its name with strokes, underscores or spaces."""
    name = _joined(word)
    return [
        GlossaryEntry((field.flag,), field.unit, field.text.rstrip("."), "Options", "")
        for field in FIELDS.values()
        if name == field.name
    ]


def technique_meaning(word: str) -> list[GlossaryEntry]:
    """Return what a technique, a setting that is searched or a runtime is, as its own file says."""
    wanted = {_joined(word), _joined(plain(word))}
    return [
        GlossaryEntry((name,), "", means, "Techniques", "")
        for name, others, means in technique_terms.terms()
        if wanted & {_joined(one) for one in (name, *others)}
    ]


def _joined(word: str) -> str:
    return re.sub(r"[-_ ]+", "_", word.strip().strip("-").lower())


def _forms(name: str) -> tuple[str, ...]:
    return name.lower(), plain(name)


@cache
def entries() -> tuple[GlossaryEntry, ...]:
    """Return the lines of the tables of the glossary that ships."""
    return tuple(_read((shipped.data_folder("docs") / "glossary.md").read_text(encoding="utf-8")))


def _read(text: str) -> Iterator[GlossaryEntry]:
    """Yield the rows of the tables of a Markdown text: names, a unit where there is one, meaning."""
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        row = _ROW.match(line)
        cells = [_MARKS.sub("", cell).strip() for cell in row[1].split("|")] if row else []
        if len(cells) in {2, 3} and cells[0] not in {"name", "word"} and set(cells[0]) != {"-"}:
            names = tuple(name.strip() for name in cells[0].split(","))
            short = _STANDS_FOR.match(line.rstrip("| ").rpartition("|")[2])
            yield GlossaryEntry(
                names, cells[1] if len(cells) == 3 else "", cells[-1], section, short[1] if short else ""
            )


def _row(entry: GlossaryEntry) -> dict[str, Any]:
    return {"word": ", ".join(entry.names), "unit": entry.unit, "means": entry.means}


def _line(entry: GlossaryEntry) -> str:
    unit = f" [{entry.unit}]" if entry.unit not in {"", "-"} else ""
    text = f"{', '.join(entry.names)}{unit}: {entry.means}"
    return "\n".join(textwrap.wrap(text, 80, subsequent_indent="  "))
