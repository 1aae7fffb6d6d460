"""What a row states of its software in columns and words, and the traits that follow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import Field, field_validator

from planner.calibrate.eras.literals import literals_of
from planner.calibrate.eras.record import SINCE_HOPPER, Era, Settings
from planner.calibrate.eras.shared import SHARED, read_shared
from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.record import Record
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_yaml
from planner.runtimes.traits import Traits, over

FLASH: Final = {1: "flash-1", 2: "flash-2", 3: "flash-3"}


class Said(Record):
    """Words that a row may have."""

    says: str = Field(min_length=1)
    """Regular expression searched in a row's words, in lower case."""
    about: str = ""
    """What it means, and where that is said, where the traits do not tell."""

    @field_validator("says")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            _pattern(text)
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from None
        return text

    def stands_in(self, text: str) -> bool:
        """Whether a row's words have it."""
        return bool(_pattern(self.says).search(text))


@cache
def _pattern(says: str) -> re.Pattern[str]:
    return re.compile(says)


class Statement(Said):
    """What a row may state, and the traits that it sets."""

    traits: Mapping[str, Any]
    """What follows."""
    over: tuple[str, ...] = ()
    """Statements whose traits it replaces where a row has both."""


class Statements(Record):
    """All that rows may state, by name, each after those that it goes over; and words for an era's text."""

    words: Mapping[str, Said]
    statements: Mapping[str, Statement]

    @cached_property
    def expected(self) -> tuple[tuple[str, str], ...]:
        """Texts of which a row's words have one wherever a statement stands, each with that one's name."""
        return tuple(
            (one, name) for name, entry in self.statements.items() for one in literals_of(entry.says)
        )

    def found(self, text: str) -> dict[str, Statement]:
        """Return the statements of a row's words: most rows state none, and lack what each would have."""
        names = dict.fromkeys([name for one, name in self.expected if one in text])
        return {name: entry for name in names if (entry := self.statements[name]).stands_in(text)}


@cache
def statements() -> Statements:
    """Return what ships."""
    return read_statements(data_folder("hardware_profiles") / "eras" / SHARED)


def read_statements(folder: Path) -> Statements:
    """Return the statements of a folder.

    Raises
    ------
    InputError
        With a problem for each fault.
    """
    path = folder / "statements.yaml"
    read = build(Statements, read_yaml(path), str(path))
    shared = read_shared(folder)
    problems: list[Problem] = []
    whole: dict[str, Statement] = {}
    for name, entry in read.statements.items():
        place = f"{path}: statements.{name}"
        found = shared.traits(entry.traits, f"{place}.traits", problems)
        whole[name] = entry.model_copy(update={"traits": found})
        for other in entry.over:
            if other not in read.statements:
                near = nearest(other, read.statements)
                problems.append(Problem(f"{place}.over", repr(other), "another statement", near))
    order = _by_precedence(whole) if not problems else []
    if len(order) < len(whole) and not problems:
        circle = ", ".join(name for name in whole if name not in order)
        problems.append(
            Problem(f"{path}: statements", f"{circle} over one another", "no circle under `over`")
        )
    if problems:
        raise InputError(problems)
    return read.model_copy(update={"statements": {name: whole[name] for name in order}})


def _by_precedence(entries: Mapping[str, Statement]) -> list[str]:
    """Return names, each after those that its statement goes over; those of a circle are left out."""
    order: list[str] = []
    while True:
        ready = [
            name for name in sorted(entries) if name not in order and set(entries[name].over) <= set(order)
        ]
        if not ready:
            return order
        order += ready


def with_graphs(framework: str, words: str) -> str:
    """Return the text of a framework with the words that a row's statements add to it.

    Examples
    --------
    >>> with_graphs("megatron-bridge 26.06", "recipe gpt_oss@c270efc50 cuda_graph_impl=transformer_engine")
    'megatron-bridge 26.06, partial graphs'
    """
    return ", ".join(
        [framework, *(name for name, said in statements().words.items() if said.stands_in(words))]
    )


def stated_traits(
    era: Era, text: str, flash_attn: int | None, fused_norm: int | None, gpu: str, sequence_parallel: bool
) -> dict[str, object]:
    """Return the traits that a run states in its columns and in ``text``, beyond those of its era."""
    said: dict[str, object] = dict(era.hopper_traits if re.search(SINCE_HOPPER, gpu.lower()) else {})
    if sequence_parallel:
        said |= era.sequence_traits
    said |= _merged(statements().found(text).values())
    if not era.compiles_loss:
        said = {name: value for name, value in said.items() if not name.startswith(("logit", "loss"))}
    if flash_attn is not None:
        said.setdefault("attention", FLASH.get(flash_attn, era.no_flash))
    if fused_norm is not None:
        said["fused_norm"] = bool(fused_norm)
    return said


def _merged(found: Iterable[Statement]) -> dict[str, object]:
    return {name: value for statement in found for name, value in statement.traits.items()}


def era_traits(traits: Traits, era: Era, precision: str, said: Settings) -> Traits:
    """Return a runtime's traits as they were in the era, with what the run states on top."""
    half = era.half_traits if precision == "fp16" else {}
    return traits.with_values(**over(over(era.traits, half), said))
