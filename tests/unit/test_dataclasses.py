"""Classes by the planner's decorator behave as the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from planner.dataclasses import dataclass, replace
from tests.cases import every
from tests.helpers import ROOT


def classes(decorator: Callable[..., Any]) -> tuple[type, type, type]:
    """Return three classes that one decorator made: plain, of a base, and with ways of its own."""

    @decorator(frozen=True)
    class Base:
        """A base."""

        first: int
        second: float = 0.5

        @cached_property
        def both(self) -> float:
            """The sum."""
            return self.first + self.second

    @decorator(frozen=True, kw_only=True)
    class Child(Base):
        """A child with parameters by name alone."""

        third: list[int] = dataclasses.field(default_factory=list, compare=False)
        fourth: int = dataclasses.field(default=4, init=False, repr=False)

    @decorator(frozen=True)
    class Own:
        """A class that checks and compares in its own way."""

        size: int
        own: str = "word"
        made: dict[str, int] = dataclasses.field(default_factory=dict, init=False)

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError("size")

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.size % 2 == other.size % 2

        def __hash__(self) -> int:
            return self.size % 2

    return Base, Child, Own


OURS = classes(dataclass)
STANDARD = classes(dataclasses.dataclass)


@every(
    "seen",
    [
        lambda base, _, __: repr(base(1)),
        lambda base, _, __: (base(1) == base(1), base(1) == base(2), base(1) == (1, 0.5), base(1).both),
        lambda base, _, __: hash(base(1, 2.0)),
        lambda base, _, __: (dataclasses.replace(base(1), second=3.0).second, dataclasses.asdict(base(2))),
        lambda base, child, __: (base(1) == child(1), repr(child(1, third=[3])), child(1).fourth),
        lambda _, child, __: child(1, third=[1]) == child(1, third=[2]),
        lambda _, child, __: hash(child(1, third=[1])),
        lambda _, child, __: str(inspect.signature(child)).count("*"),
        lambda _, child, __: child.__match_args__,
        lambda _, __, own: (own(1) == own(3), hash(own(4)), own(1).made, own(1).own),
        lambda _, __, own: copy.copy(own(7)).size,
    ],
)
def test_what_is_seen_is_what_the_library_shows(seen: Callable[..., Any]) -> None:
    assert seen(*OURS) == seen(*STANDARD)


@every(
    "wrong",
    [
        lambda base, _, __: setattr(base(1), "first", 2),
        lambda base, _, __: delattr(base(1), "first"),
        lambda base, _, __: base(),
        lambda base, _, __: base(1, third=2),
        lambda _, child, __: child(1, 0.5, []),
        lambda _, __, own: own(-1),
        lambda _, child, __: hash(child(first=[])),
    ],
)
def test_what_is_refused_is_refused_with_the_same_words(wrong: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as standard:  # noqa: PT011
        wrong(*STANDARD)
    with pytest.raises(type(standard.value)) as ours:
        wrong(*OURS)
    assert str(ours.value) == str(standard.value)


@dataclass(frozen=True)
class Stored:
    """A class that a pickle can name."""

    value: int


def test_objects_pass_through_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Stored(3))) == Stored(3)


@every(("base", "child"), [(0, dataclasses.dataclass), (1, dataclass)])
def test_a_class_of_either_kind_may_have_a_base_of_the_other(base: int, child: Callable[..., Any]) -> None:
    made = child(frozen=True)(
        type("Made", ((OURS, STANDARD)[base][0],), {"__annotations__": {"more": "int"}, "more": 3})
    )
    assert repr(made(1)).endswith("Made(first=1, second=0.5, more=3)")
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Loose", (OURS[0],), {}))


def test_the_package_takes_its_frozen_classes_from_here() -> None:
    """Whoever starts pays for each class that does not."""
    for path in (ROOT / "planner").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "\n@dataclass(frozen=True)" in text and path.name != "module_text.py":
            assert "\nfrom dataclasses import dataclass" not in text, path


@every("kind", [0, 1, 2])
def test_a_changed_object_is_the_one_that_would_be_made(kind: int) -> None:
    """Also of a class that checks, and of one that has worked something out."""
    name = ("first", "first", "size")[kind]
    made = OURS[kind](1)
    assert getattr(made, "both", 1.5) == 1.5
    assert replace(made, **{name: 3}) == OURS[kind](3)
    assert getattr(replace(made, **{name: 3}), "both", 3.5) == 3.5
    with pytest.raises(TypeError):
        replace(made, other=1)


def test_a_changed_object_is_checked_where_its_class_checks() -> None:
    with pytest.raises(ValueError, match="size"):
        replace(OURS[2](1), size=-1)
