"""The grid of a sweep: every option of a search as one value or a list, and the product of all lists."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import yaml
from pydantic import PlainValidator, create_model

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.fields import ASKED_AXES, JOB, SEARCH
from planner.inputs.build import build
from planner.inputs.record import Record
from planner.inputs.yaml_file import read_text, read_yaml

MOST_CASES: Final = 100_000
"""Cases beyond which a grid is taken for a slip."""

Options = dict[str, str | None]
"""A case as the grid says it: an axis and its value as text; None leaves it to the search or the default."""


def _values(raw: Any) -> tuple[str | None, ...]:
    """Return the values of an axis as text, each once."""
    items = raw if isinstance(raw, list) else [raw]
    if not items:
        raise ValueError("at least one value")
    for item in items:
        if not isinstance(item, str | int | float | None):
            raise ValueError("a value or a flat list of values")
        if item == "":
            raise ValueError("a value that is not empty")
    return tuple(dict.fromkeys(_text(item) for item in items))


def _named(raw: Any) -> tuple[str | None, ...]:
    values = _values(raw)
    if None in values:
        raise ValueError("names or paths")
    return values


def _text(item: str | float | bool | None) -> str | None:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, float) and item.is_integer():
        return str(int(item))
    return None if item is None else str(item)


Axis = Annotated[tuple[str | None, ...], PlainValidator(_values)]
Names = Annotated[tuple[str | None, ...], PlainValidator(_named)]


OUTER: Final = ("model", "hardware", "gpus", "seq_len", "global_batch", "global_batch_tokens", "method",
                "runtime", "target_version")  # fmt: skip
INNER: Final = ("gpus_per_node", "memory_limit", "price", "changes")
"""Fields of the job that vary slowest, in this order, and fastest; axes of the plan vary faster."""

OWN_KEYS: Final = {"model": "models", "changes": "set"}
"""Keys that are not the names of their fields."""


def _in_order() -> Iterator[str]:
    """Yield the keys of a grid in the order of its product."""
    names = [field.name for field in JOB if field.gridded]
    between = [name for name in names if name not in (*OUTER, *INNER)]
    others = [field.name for field in (*ASKED_AXES, *SEARCH) if field.gridded]
    for name in (*OUTER, *between, *INNER, *others):
        yield OWN_KEYS.get(name, name)


_FIELDS: Any = {name: (Axis, ()) for name in _in_order()} | dict.fromkeys(
    ("models", "hardware"), (Names, ...)
)

if TYPE_CHECKING:

    class _Axes(Record):
        models: Names
        hardware: Names
else:
    _Axes = create_model("_Axes", __base__=Record, **_FIELDS)


class Grid(_Axes):
    """What a sweep goes over; each field is an option of ``planner search``, empty where it is not given."""

    @property
    def axes(self) -> dict[str, tuple[str | None, ...]]:
        """The axes that are given, in the order of the product."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: values for name, values in given.items() if values}

    @property
    def varying(self) -> tuple[str, ...]:
        """Names of the axes with more than one value."""
        return tuple(name for name, values in self.axes.items() if len(values) > 1)

    @property
    def size(self) -> int:
        """Number of cases."""
        return math.prod(len(values) for values in self.axes.values())

    def options(self) -> Iterator[Options]:
        """Yield every case, the last axis fastest."""
        axes = self.axes
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))


def load_grid(path: Path) -> Grid:
    """Return the grid that a YAML file holds.

    Raises `InputError` with every fault of its keys and values, or if it has more than `MOST_CASES` cases.
    """
    try:
        grid = build(Grid, _as_fields(read_yaml(path)), str(path))
    except InputError as error:
        lines = key_lines(path)
        raise InputError([_with_line(problem, str(path), lines) for problem in error.problems]) from None
    check_size(grid, path)
    return grid


def field_of(key: Any) -> Any:
    """Return the field that a key means: ``models`` may be one, and options stand as on the command line.

    Examples
    --------
    >>> field_of("seq-len"), field_of("model")
    ('seq_len', 'models')
    """
    return "models" if key == "model" else key.replace("-", "_") if isinstance(key, str) else key


def _as_fields(raw: Any) -> Any:
    """Return the keys as fields; what says a field twice stays as it is written, and so is refused."""
    if not isinstance(raw, dict):
        return raw
    fields = [field_of(key) for key in raw]
    return {
        key if fields.count(field) > 1 else field: value
        for (key, value), field in zip(raw.items(), fields, strict=True)
    }


def check_size(grid: Grid, path: Path) -> None:
    """Refuse a grid that is too large to be meant.

    Raises `InputError` if it has more than `MOST_CASES` cases.
    """
    if grid.size > MOST_CASES:
        lengths = " · ".join(f"{len(grid.axes[name])} {name}" for name in grid.varying)
        raise InputError(Problem(str(path), f"{lengths} = {grid.size:,} cases", f"at most {MOST_CASES:,}"))


def key_lines(path: Path) -> dict[str, int]:
    """Return the line of each key at the top of a YAML file; nothing where it cannot be read."""
    try:
        root = yaml.compose(read_text(path), yaml.SafeLoader)
    except (yaml.YAMLError, InputError, RecursionError):
        return {}
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return {
        str(name): key.start_mark.line + 1
        for key, _ in pairs
        if isinstance(key, yaml.ScalarNode)
        for name in (key.value, field_of(key.value))
    }


def _with_line(problem: Problem, where: str, lines: Mapping[str, int]) -> Problem:
    """Return a fault of a key with the line on which the key stands."""
    key = problem.where.removeprefix(f"{where}: ").split("[")[0].split(".")[0]
    if not problem.where.startswith(f"{where}: ") or key not in lines:
        return problem
    return replace(problem, where=problem.where.replace(where, f"{where}:{lines[key]}", 1))
