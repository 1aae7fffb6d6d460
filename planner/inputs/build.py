"""From a mapping to a frozen record: every fault at once, in the words of the file."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from planner.errors import InputError, Problem, nearest
from planner.inputs.record import Record

R = TypeVar("R", bound=Record)

UNKNOWN: Final = "unknown key"
MAPPING: Final = "a mapping"
"""What is found in the place of a field that a record does not have, and expected in that of a record."""

_EXPECTED = {
    "missing": "a value",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of sensible size",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": MAPPING,
    "model_type": MAPPING,
    "model_attributes_type": MAPPING,
    "too_short": "at least one entry",
}
_BOUNDS = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
_SIGNS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def build(kind: type[R], raw: Any, where: str, sources: Mapping[str, str] | None = None) -> R:
    """Return the record of type ``kind`` that ``raw`` describes.

    ``raw``: what the file says, as `read_yaml` returns it; ``sources``: short names of sources that
    quantities may cite, each with what it stands for.

    Raises `InputError` with one problem for each fault: ``file: path.to.field``, what was found, what is
    accepted.
    """
    try:
        return kind.model_validate(raw, context={"sources": dict(sources or {})})
    except ValidationError as error:
        raise wrong_input(kind, raw, where, error) from None


def wrong_input(kind: type[Record], raw: Any, where: str, error: ValidationError) -> InputError:
    """Return the faults of a record as the error that tells all of them."""
    return InputError([_problem(kind, raw, where, fault) for fault in error.errors()])


def _problem(kind: type[Record], raw: Any, where: str, fault: Any) -> Problem:
    kinds, path = _follow(kind, raw, fault["loc"], fault["type"] == "missing")
    place = f"{where}: {path}" if path else where
    if fault["type"] == "extra_forbidden":
        fields = sorted({name for model in kinds for name in model.model_fields})
        near = nearest(str(fault["loc"][-1]), fields)
        return Problem(place, UNKNOWN, f"one of {', '.join(fields)}", near)
    found = "nothing" if fault["type"] == "missing" else _shown(fault["input"])
    choices = _choices(fault)
    word = fault["ctx"].get("tag", fault["input"]) if choices else ""
    return Problem(place, found, _expected(fault), nearest(str(word), choices))


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _choices(fault: Any) -> list[str]:
    key = "expected" if fault["type"] == "literal_error" else "expected_tags"
    listed = str(fault.get("ctx", {}).get(key, "")).replace(" or ", ", ")
    return [word.strip(" '") for word in listed.split(",") if word.strip(" '")]


def _expected(fault: Any) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    choices = _choices(fault)
    if choices:
        tag = str(context.get("discriminator", "")).strip("'")
        return f"{tag + ': ' if tag else ''}one of {', '.join(choices)}"
    if kind in _BOUNDS:
        return f"{_SIGNS[_BOUNDS[kind]]} {context[_BOUNDS[kind]]:,}"
    if kind == "union_tag_not_found":
        return f"a mapping with the key {context['discriminator']}"
    if kind == "value_error":
        return str(context["error"])
    return _EXPECTED.get(kind, str(fault["msg"]))


def _follow(kind: type[Record], raw: Any, loc: tuple[Any, ...], missing: bool) -> tuple[list[Any], str]:
    """Walk ``loc`` through value and types; return the records at its end and the path as a file has it.

    The tag of a union, which pydantic puts into ``loc``, selects a type and is no part of the path.
    """
    types: list[Any] = [kind]
    parents: list[Any] = [kind]
    path = ""
    for number, part in enumerate(loc):
        parents = _records(types) or parents
        if isinstance(raw, Mapping) and (part in raw or (missing and number == len(loc) - 1)):
            types, raw = _inner(types, part), raw.get(part)
            path += f".{part}" if path else str(part)
        elif isinstance(raw, list | tuple) and isinstance(part, int) and part < len(raw):
            types, raw = _inner(types, part), raw[part]
            path += f"[{part}]"
        else:
            types = [model for model in types if part in _tags(model)] or types
    return _records(types) or parents, path


def _records(types: list[Any]) -> list[Any]:
    return [model for model in types if isinstance(model, type) and issubclass(model, Record)]


def _inner(types: list[Any], part: int | str) -> list[Any]:
    """Types that the value under ``part`` of a value of ``types`` may have."""
    found: list[Any] = []
    for model in types:
        if _records([model]):
            field = model.model_fields.get(str(part))
            found += _members(field.annotation) if field else []
        else:
            found += [member for argument in get_args(model) for member in _members(argument)]
    return found


def _members(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [member for argument in get_args(annotation) for member in _members(argument)]
    return [annotation]


def _tags(model: Any) -> set[Any]:
    """Words that select ``model`` in a union: the literals of its fields."""
    if not _records([model]):
        return set()
    notes = [field.annotation for field in model.model_fields.values()]
    return {word for note in notes if get_origin(note) is Literal for word in get_args(note)}
