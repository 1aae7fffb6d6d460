"""A family is a folder: one file, one ``ENTRY``, found by name or alias."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from planner.errors import InputError
from planner.registry import find, load_family, member_modules
from tests.cases import every
from tests.helpers import ROOT


@dataclass(frozen=True)
class Shape:
    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Colour:
    name: str
    aliases: tuple[str, ...] = ()


HEAD = f"from {__name__} import Colour, Shape\n"
MakeFamily = Callable[..., ModuleType]
numbers = itertools.count()


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeFamily:
    """Return a function that makes a package with the given files and imports it."""

    def make(**files: str) -> ModuleType:
        package = f"family_{next(numbers)}"
        (tmp_path / package).mkdir()
        for name, text in {"__init__": "", **files}.items():
            (tmp_path / package / f"{name}.py").write_text(HEAD + text)
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(package)

    return make


def shapes(family: MakeFamily) -> Mapping[str, Shape]:
    package = family(
        one="ENTRY = Shape('round', ('circle', 'Disc'))", two="ENTRY = Shape('angular')", _family="1 / 1"
    )
    return load_family(package.__name__, Shape)


def test_every_public_file_gives_its_entry_sorted_by_name(family: MakeFamily) -> None:
    table = shapes(family)
    assert list(table) == ["angular", "round"]
    assert table["round"].aliases == ("circle", "Disc")


def test_the_table_cannot_be_changed(family: MakeFamily) -> None:
    with pytest.raises(TypeError):
        shapes(family)["new"] = Shape("new")  # type: ignore[index]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"one": ""}, r"family_\d+\.one: ENTRY is not a Shape"),
        ({"one": "ENTRY = Colour('red')"}, r"family_\d+\.one: ENTRY is not a Shape"),
        ({"one": "ENTRY = Shape('a')", "two": "ENTRY = Shape('a')"}, "two: the name a is taken"),
    ],
)
def test_a_file_without_an_own_entry_is_an_error(
    family: MakeFamily, files: dict[str, str], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        load_family(family(**files).__name__, Shape)


@pytest.mark.parametrize("spelling", ["round", "ROUND", "circle", "disc"])
def test_a_member_is_found_by_name_or_alias_in_any_case(family: MakeFamily, spelling: str) -> None:
    assert find(shapes(family), spelling, "--shape").name == "round"


def test_an_unknown_name_is_answered_with_what_there_is_and_what_is_near(family: MakeFamily) -> None:
    with pytest.raises(InputError) as caught:
        find(shapes(family), "angulr", "--shape")
    (problem,) = caught.value.problems
    assert problem.where == "--shape"
    assert problem.found == "'angulr'"
    assert problem.expected == "one of angular, round"
    assert problem.nearest == "angular"


FAMILIES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "planner").rglob("family.py")
)


@every("package", FAMILIES)
def test_no_spelling_of_a_family_means_two_members(package: str) -> None:
    members = member_modules(package)
    entries = [importlib.import_module(f"{package}.{name}").ENTRY for name in members]
    spellings = [word for entry in entries for word in {s.lower() for s in (entry.name, *entry.aliases)}]
    assert sorted(spellings) == sorted(set(spellings))
