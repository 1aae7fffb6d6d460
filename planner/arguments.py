"""Arguments of the Python API: what is given where something else belongs, told as wrong input."""

from __future__ import annotations

import inspect
import types
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from planner.errors import InputError, Problem

P = ParamSpec("P")
T = TypeVar("T")

WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    Path: "a path",
    type(None): "None",
}
"""What belongs where one of these types does."""

MAKERS: Mapping[str, str] = {
    "ModelSpec": "load_model",
    "HardwareProfile": "load_hardware",
    "Runtime": "load_runtime",
    "Workload": "Workload",
    "Job": "Job",
    "Estimate": "estimate_plan",
}
"""The public function, or class, that makes one."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that refuses arguments of other types than it says, all of them at once.

    Raises
    ------
    InputError
        From the function returned, where an argument has another type.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def careful(*args: P.args, **kwargs: P.kwargs) -> T:
        given = _bound(signature, getattr(function, "__name__", "call"), args, kwargs).arguments
        named = {
            name: value
            for name, value in given.items()
            if signature.parameters[name].kind
            not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        }
        refuse(named, get_type_hints(function))
        return function(*args, **kwargs)

    return careful


def made_with_care(kind: type[T]) -> type[T]:
    """Return a class whose constructor refuses missing and unknown arguments as wrong input.

    Raises
    ------
    InputError
        From the constructor, with the fields that it has.
    """
    made: Callable[..., None] = kind.__init__
    signature = inspect.signature(made)

    @wraps(made)
    def careful(self: T, *args: Any, **kwargs: Any) -> None:
        try:
            made(self, *args, **kwargs)
        except TypeError:
            _bound(signature, kind.__name__, (self, *args), kwargs)
            raise

    setattr(kind, "__init__", careful)  # noqa: B010
    return kind


def _bound(
    signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(one for one in signature.parameters if one != "self")
        raise InputError(Problem(name, str(error), f"arguments of {names}")) from None


def refuse(values: Mapping[str, object], kinds: Mapping[str, object], where: str = "") -> None:
    """Refuse values that are not of their kinds.

    Parameters
    ----------
    values : mapping
        By name, as given.
    kinds : mapping
        A type, or a union of types, for each name.
    where : str
        What the names belong to.

    Raises
    ------
    InputError
        With every value that is not.
    """
    problems = [
        Problem(f"{where}{name}", shown(value), _expected(kinds[name]), _near(value, kinds[name]))
        for name, value in values.items()
        if name in kinds and type(value) is not kinds[name] and not is_of(value, kinds[name])
    ]
    if problems:
        raise InputError(problems)


def is_of(value: object, kind: object) -> bool:
    """Whether a value is of a type, of one of a union, or a sequence or mapping of some.

    Examples
    --------
    >>> is_of(8, int), is_of("8", int), is_of(True, int), is_of((1, 2), tuple[int, ...])
    (True, False, False, True)
    """
    if isinstance(kind, ABCMeta):
        return isinstance(value, kind)
    if kind is Any:
        return True
    if _is_union(kind):
        return any(is_of(value, one) for one in get_args(kind))
    origin = get_origin(kind)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        inner = [one for one in get_args(kind) if one is not ...]
        if not isinstance(value, Sequence) or isinstance(value, str):
            return False
        return all(is_of(one, inner[0]) for one in value if inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        keys, values = get_args(kind)
        return isinstance(value, Mapping) and all(
            is_of(key, keys) and is_of(one, values) for key, one in value.items()
        )
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    known = origin or kind
    return isinstance(value, known) if isinstance(known, type) else True


def _is_union(kind: object) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _leaves(kind: object) -> Iterator[object]:
    """Yield the types of a union."""
    if _is_union(kind):
        for one in get_args(kind):
            yield from _leaves(one)
    else:
        yield kind


def _expected(kind: object) -> str:
    words = []
    for one in _leaves(kind):
        name = getattr(one, "__name__", str(one))
        inner = [part for part in get_args(one) if part is not ...]
        if inner and name in ("Sequence", "tuple", "list"):
            words.append(f"several, each {_expected(inner[0])}")
        elif inner and name in ("Mapping", "dict"):
            words.append(f"a mapping of names, each to {_expected(inner[1])}")
        elif one in WORDS:
            words.append(WORDS[one])
        else:
            maker = MAKERS.get(name)
            words.append(
                f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" + (f" from planner.{maker}" if maker else "")
            )
    return " or ".join(dict.fromkeys(words))


def _near(value: object, kind: object) -> str:
    """Return what the value may have been meant as; empty where nothing is near."""
    for one in _leaves(kind):
        maker = MAKERS.get(getattr(one, "__name__", ""), "")
        if isinstance(value, str) and maker.startswith("load_"):
            return f"planner.{maker}({value!r})"
        if one in (int, float) and isinstance(value, str | float):
            try:
                number = float(value)
            except ValueError:
                continue
            if one is float or number.is_integer():
                return f"{number:g}" if one is float else str(int(number))
    return ""


def shown(value: object) -> str:
    """Return a value as a message has it, and not too long."""
    try:
        text = repr(value)
    except Exception:
        text = "something"
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return short if isinstance(value, str | int | float | None) else f"{short} ({type(value).__name__})"
