"""Eras are files: the most particular match is meant in any order, and all faults are told at once."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from planner.calibrate.eras.files import exclude, read_programs, shipped
from planner.calibrate.eras.match import Match, matches
from planner.calibrate.eras.record import EraProgram
from planner.calibrate.eras.statements import read_statements, statements, with_graphs
from planner.errors import InputError
from planner.inputs.shipped import data_folder
from tests.helpers import ROOT
from tests.unit.shipped_eras import eras_by_name

ERAS = data_folder("hardware_profiles") / "eras"
PUBLIC = ROOT / "tests" / "unit" / "data" / "frameworks.txt"
GPUS = ("v100-32gb", "a100-80gb-sxm", "h100-80gb-sxm", "gb200-186gb")


@cache
def rows() -> list[tuple[str, str]]:
    """Framework's text and all words of the rows of the project's run tables."""
    tables = sorted((ROOT / "tests" / "measured" / "runs").glob("*.csv"))
    columns = ("model", "framework", "overlap", "notes")
    found = set()
    for table in tables:
        with table.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                words = " | ".join(row.get(name) or "" for name in columns).lower()
                found.add((with_graphs(row.get("framework") or "", words), words))
    return sorted(found)


@cache
def texts() -> list[str]:
    """Framework texts of the project's run tables and of public ones."""
    public = PUBLIC.read_text(encoding="utf-8").splitlines()
    return sorted({*public, *(framework for framework, _ in rows())})


def asked() -> Iterator[tuple[str, str, int | None, str]]:
    return product(texts(), GPUS, (None, 2), ("", "3"))


def unordered(found: Sequence[Match], programs: Sequence[EraProgram]) -> bool:
    """Whether two programs that know nothing of each other are named, so that the longer word decides."""
    over = {program.name: program.over for program in programs}
    queue, under = [found[0].program.name], set()
    while queue:
        more = set(over[queue.pop()]) - under
        under |= more
        queue += more
    return any(other.program.name not in under for other in found[1:])


def test_no_text_of_a_run_names_two_programs_that_know_nothing_of_each_other() -> None:
    assert len(texts()) > 60
    found = {text: matches(text, gpu, flash, zero, shipped()) for text, gpu, flash, zero in asked()}
    assert {text for text, match in found.items() if match and unordered(match, shipped())} == set()


def test_no_two_eras_of_a_program_match_a_text_equally() -> None:
    """Each pair has another number of conditions, or some that no run meets together."""
    pairs = [
        (a, b)
        for program in shipped()
        for one, other in product(program.eras, repeat=2)
        if one is not other
        for a, b in product(one.where, other.where)
        if a.rank == b.rank
    ]
    assert pairs
    assert all(exclude(a, b) for a, b in pairs)


def test_no_order_of_files_decides() -> None:
    backwards = tuple(
        program.model_copy(update={"eras": program.eras[::-1], "words": program.words[::-1]})
        for program in shipped()[::-1]
    )
    for question in asked():
        first, second = (matches(*question, programs)[:1] for programs in (shipped(), backwards))
        assert [match.era for match in first] == [match.era for match in second], question


def test_statements_of_a_row_that_differ_say_which_goes_over_which() -> None:
    known = statements().statements

    def over(name: str) -> set[str]:
        return {name}.union(*(over(other) for other in known[name].over))

    for _, words in rows():
        found = statements().found(words)
        for one, other in product(found, repeat=2):
            common = set(found[one].traits) & set(found[other].traits)
            if any(found[one].traits[name] != found[other].traits[name] for name in common):
                assert one in over(other) or other in over(one), words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ERAS, tmp_path / "eras"))


def found(folder: Path, text: str, gpu: str = "h100-80gb-sxm") -> str:
    return matches(text, gpu, None, "", read_programs(folder))[0].era.name


FORK = """
words: [river-megatron, fsdp-river]
over: [fsdp]
eras:
  river:
    like: megatron-lm
    about: a fork of Megatron-LM with 16-bit gradients
    traits: {sets: [bf16-gradients]}
  river-2:
    like: river
    about: its second release, whose norms are several kernels
    where: {versions: 2.1 or later}
    traits: {fused_norm: false}
"""


def test_one_file_adds_an_era(folder: Path) -> None:
    assert found(folder, "River Megatron 1.4") == "megatron-lm"
    (folder / "river.yaml").write_text(FORK, encoding="utf-8")
    asked = ("River Megatron 1.4", "river-megatron, release 2.10", "FSDP (fsdp_river)", "megatron-lm", "FSDP")
    assert [found(folder, text) for text in asked] == ["river", "river-2", "river", "megatron-lm", "fsdp"]
    second = eras_by_name(read_programs(folder))["river-2"]
    assert second.traits == {"gradient_dtype": "bf16", "reduce_dtype": "bf16", "fused_norm": False}
    assert second.runtime == "megatron-lm"


def test_an_era_may_have_the_former_name_of_a_trait(folder: Path) -> None:
    former = FORK.replace("fused_norm: false", "chained_rope: halves, step_copies: false")
    (folder / "river.yaml").write_text(former, encoding="utf-8")
    second = eras_by_name(read_programs(folder))["river-2"]
    assert (second.traits["rotary_chain"], second.traits["optimizer_step"]) == ("halves", "in-place")


def test_all_faults_of_all_files_are_told_at_once(folder: Path) -> None:
    wrong = FORK.replace("[bf16-gradients]", "[bf16-gradient]").replace("fused_norm: false", "fuse_norm: 1")
    (folder / "river.yaml").write_text(wrong.replace("2.1 or later", "two"), encoding="utf-8")
    lake = "words: [lake]\neras:\n  lake: {runtime: megatron, about: x, blanks: {zeros: 3}}\n"
    (folder / "lake.yaml").write_text(lake, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_programs(folder)
    told = str(error.value)
    for words in (
        "river.yaml: eras.river.traits.sets: found 'bf16-gradient'",
        "nearest: bf16-gradients",
        "river.yaml: eras.river-2.traits.fuse_norm: found unknown trait",
        "nearest: fused_norm",
        "lake.yaml: eras.lake: blanks.zeros: found unknown key",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FORK.replace("river-megatron", "nemo"), "words: found 'nemo'"),
        (FORK.replace("[fsdp]", "[sdp]"), "over: found 'sdp'"),
        (
            FORK.replace("    where: {versions: 2.1 or later}\n", ""),
            "as many conditions, which both can hold",
        ),
        (FORK.replace("like: river\n", "like: river-2\n"), "another era, which is not like this one"),
        (FORK.replace("  river-2:", "  fsdp:"), "eras: found 'fsdp'"),
        (FORK.replace("2.1 or later", "3 to 2"), "a range whose end is not before its start"),
        (FORK.replace("like: megatron-lm", "runtime: megatron"), "nearest: megatron-"),
        (FORK.replace("false", "0.5"), "fused_norm: found 0.5"),
        ("words: []\neras: {}\n", "at least one entry"),
    ],
)
def test_a_file_that_could_not_decide_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "river.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"river\.yaml") as error:
        read_programs(folder)
    assert words in str(error.value)


def test_wrong_statements_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "statements.yaml").write_text(
        "words: {}\nstatements:\n"
        "  one: {says: 'one', traits: {compile: true}, over: [too]}\n"
        "  two: {says: 'two', traits: {compiled: 2}}\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as error:
        read_statements(tmp_path)
    assert len(error.value.problems) == 3


def test_statements_over_one_another_are_refused(tmp_path: Path) -> None:
    (tmp_path / "statements.yaml").write_text(
        "words: {}\nstatements:\n"
        "  one: {says: 'one', traits: {compiled: true}, over: [two]}\n"
        "  two: {says: 'two', traits: {compiled: false}, over: [one]}\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="no circle"):
        read_statements(tmp_path)
