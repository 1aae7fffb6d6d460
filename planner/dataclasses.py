"""``@dataclass(frozen=True)`` as the standard library has it, defined in a quarter of the time.

The library writes and compiles six methods for each class, 0.4 ms; a cold search defines 250 classes, a
seventh of its time. Here ``__init__`` alone is compiled; comparison, hash, text and the refusal to assign are
the same for all. Type checkers see the library's own decorator.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, is_dataclass
from dataclasses import dataclass as standard_dataclass
from dataclasses import replace as standard_replace
from functools import cache, cached_property
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

T = TypeVar("T")

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "is_dataclass", "remembered_by", "replace"]

if TYPE_CHECKING:
    from dataclasses import Field, dataclass, replace
else:

    def dataclass(cls: type | None = None, /, **how: bool) -> Any:
        """Return the class with its methods; whatever is not plainly frozen is the library's."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **how)
        if set(how) - {"frozen", "kw_only", "repr"} or not how.get("frozen"):
            return standard_dataclass(**how)(cls)
        return _frozen(cls, kw_only=how.get("kw_only", False), shown=how.get("repr", True))

    def replace(record: Any, /, **values: Any) -> Any:
        """Return a frozen object with other values, at a fifth of the library's time."""
        kind = type(record)
        known = _PLAIN.get(kind)
        if known is None or not values.keys() <= known:
            return standard_replace(record, **values)
        other = object.__new__(kind)
        own = {**record.__dict__, **values}
        for name in remembered_by(kind):
            own.pop(name, None)
        _HOLDS[kind](other, own)
        if kind in _CHECKED:
            other.__post_init__()
        return other


_PLAIN: Final[dict[type, frozenset[str]]] = {}
"""Classes whose objects hold what they are given, with their fields."""

_HOLDS: Final[dict[type, Any]] = {}
"""What gives an object of a class its attributes at once: from a mapping that was built whole they are read
in less than half the time that they take from one to which each was added."""

_CHECKED: Final[set[type]] = set()
"""Classes among them that look at what they are given."""

_MADE: Final = object()
"""The default of a parameter whose value a factory makes."""


def _frozen(cls: type, kw_only: bool, shown: bool) -> type:
    """Return the class with fields of the library's finding and methods of this module's."""
    own = vars(cls).copy()
    of_a_base = any(is_dataclass(base) for base in cls.__mro__[1:])  # the library asks both to be alike
    standard_dataclass(init=False, repr=False, eq=False, frozen=of_a_base, kw_only=kw_only)(cls)
    cls.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
    _HOLDS[cls] = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)).__set__
    if all(each.init for each in fields(cls)):
        _PLAIN[cls] = frozenset(each.name for each in fields(cls))
        if hasattr(cls, "__post_init__"):
            _CHECKED.add(cls)
    for name, found in own.items():
        if type(found) is cached_property and found.attrname == name:
            setattr(cls, name, _unlocked(found))
    methods = {
        "__init__": _initialiser(cls, fields(cls)),
        **({"__repr__": _text} if shown else {}),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        **_comparison(tuple(each.name for each in fields(cls) if each.compare)),
    }
    for name, method in methods.items():
        if own.get(name) is None:  # as a hash is where a class compares in its own way
            setattr(cls, name, method)
    return cls


class _Once(cached_property[Any]):
    """A property that an object works out once, without the lock that Python 3.11 takes for it.

    Two threads may both work it out, to the same value, as they may from Python 3.12 on.
    """

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname or ""] = self.func(instance)
        return value


def _unlocked(found: cached_property[Any]) -> _Once:
    once = _Once(found.func)
    once.__set_name__(object, found.attrname or "")
    return once


def _initialiser(cls: type, found: tuple[Field[Any], ...]) -> Any:
    """Compile the method that takes the fields in their order, those by name alone at the end."""
    known: dict[str, Any] = {"_made": _MADE, "_hold": _HOLDS[cls]}
    places: list[str] = []
    names: list[str] = []
    held: list[str] = []
    for each in found:
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}() if {name} is _made else {name}" if each.init else f"_make_{name}()"
        elif not each.init:
            continue
        held.append(f"{name!r}: {value}")
        if each.init:
            parameter = name
            if each.default is not MISSING:
                known[f"_default_{name}"] = each.default
                parameter = f"{name}=_default_{name}"
            elif each.default_factory is not MISSING:
                parameter = f"{name}=_made"
            (names if each.kw_only else places).append(parameter)
    lines = [f"_hold(self, {{{', '.join(held)}}})"]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *places, *(["*", *names] if names else [])])
    made: dict[str, Any] = {}
    exec(f"def __init__({parameters}):\n    " + "\n    ".join(lines), known, made)
    made["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    made["__init__"].__annotations__ = {each.name: each.type for each in found if each.init} | {
        "return": None
    }
    return made["__init__"]


def _comparison(names: tuple[str, ...]) -> dict[str, Any]:
    """Return equality and hash by the values of some fields."""
    values = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


@recursive_repr()
def _text(self: Any) -> str:
    """Return the call that would make the same object."""
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_to_set(_: Any, name: str, __: Any) -> NoReturn:
    """Refuse a new value, as frozen classes do."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: Any, name: str) -> NoReturn:
    """Refuse to lose a value, as frozen classes do."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")


@cache
def remembered_by(kind: type) -> frozenset[str]:
    """Return the properties that a class works out once, which a changed object works out again."""
    known = {name: found for base in reversed(kind.__mro__) for name, found in vars(base).items()}
    return frozenset(name for name, found in known.items() if isinstance(found, cached_property))
