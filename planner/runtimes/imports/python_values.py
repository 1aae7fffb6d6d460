"""Values of a Python program that is read and not run: what is known, what is made, and what is not known."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda one, many: one in many,
    "not in": lambda one, many: one not in many,
}
COUNTED: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Unread(str):
    """Source text of what is not known."""

    __slots__ = ()


@dataclass(eq=False)
class Made:
    """What a call made: the name that was called, its positional values, and its fields as set last.

    ``handed`` are the calls that it was given to, ``doubt`` the condition under which alone it is made, where
    that is not known.
    """

    kind: str
    args: tuple[Any, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    handed: list[Made] = field(default_factory=list)
    doubt: str = ""

    def __str__(self) -> str:
        return f"{self.kind}(...)"

    @property
    def maybe(self) -> bool:
        """Whether it may be anything: what a function gives, where a class gives an object."""
        return bool(self.kind) and not self.kind.rpartition(".")[2][:1].isupper()


def is_open(value: Any) -> bool:
    """Return whether a value may be anything."""
    return isinstance(value, Unread) or (isinstance(value, Made) and value.maybe)


def sign_of(sign: ast.cmpop) -> str:
    """Return a comparison as it is written."""
    return ast.unparse(ast.Compare(ast.Name("x"), [sign], [ast.Name("y")]))[2:-2]


def as_read(target: ast.expr) -> ast.expr:
    """Return a target as the expression that reads it."""
    return ast.parse(ast.unparse(target), mode="eval").body


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two plain values are the same."""
    plain = (bool, int, float, str, type(None))
    return isinstance(one, plain) and isinstance(other, plain) and type(one) is type(other) and one == other


def followed_method(owner: Any, name: str, args: list[Any]) -> tuple[bool, Any]:
    """Return whether a method of a list, table or text was followed, and what it gives."""
    if isinstance(owner, list) and name == "append" and len(args) == 1:
        owner.append(args[0])
        return True, None
    if isinstance(owner, list) and name == "extend" and len(args) == 1 and isinstance(args[0], list):
        owner.extend(args[0])
        return True, None
    if isinstance(owner, dict) and name == "get" and args and isinstance(args[0], str | int):
        return True, owner.get(args[0], args[1] if len(args) > 1 else None)
    if isinstance(owner, str) and not isinstance(owner, Unread) and name in ("lower", "upper", "strip"):
        return True, getattr(owner, name)()
    return False, None
