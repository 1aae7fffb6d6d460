"""Traits are records by subject, known outside by one flat name each; no record of the core is a heap."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

from planner.runtimes import runtimes
from planner.runtimes.traits import TRAITS, Traits
from planner.runtimes.traits.trait import Trait
from tests.cases import every
from tests.cli.command import planner
from tests.helpers import ROOT, nodes, parsed_text

MOST_FIELDS = 45
CORE = ("runtimes", "techniques", "cost")
EVERY = every("trait", TRAITS.values(), ids=TRAITS)


def field_counts(package: Path) -> dict[str, int]:
    """Return how many fields each class of a package declares."""
    classes = [
        (path.relative_to(package), node)
        for path in package.rglob("*.py")
        for node in nodes(path, ast.ClassDef)
    ]
    return {
        f"{path}: {node.name}": sum(isinstance(line, ast.AnnAssign) for line in node.body)
        for path, node in classes
    }


@every("package", CORE)
def test_no_record_is_a_heap(package: str) -> None:
    counts = field_counts(ROOT / "planner" / package)
    assert counts
    assert {name: count for name, count in counts.items() if count > MOST_FIELDS} == {}


def test_a_heap_is_found(tmp_path: Path) -> None:
    lines = "".join(f"    f{number}: int = 0\n" for number in range(MOST_FIELDS + 1))
    (tmp_path / "a.py").write_text(f"class A:\n{lines}")
    assert field_counts(tmp_path) == {"a.py: A": MOST_FIELDS + 1}


def by_name(source: str) -> list[str]:
    """Return the comparisons of a runtime's or engine's name with one that is written there."""
    found = []
    for node in ast.walk(parsed_text(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = [side for side in sides if re.search(r"\b(runtime|engine)\.name$", ast.unparse(side))]
            fixed = [side for side in sides if re.match(r"[A-Z('\[{]", ast.unparse(side))]
            found += [ast.unparse(node)] if named and fixed else []
    return found


@pytest.mark.parametrize("package", ["cost", "formulas", "search", "simulate", "techniques"])
def test_what_a_runtime_or_an_engine_does_is_asked_of_its_record(package: str) -> None:
    """Not of its name: another that does the same would be priced otherwise."""
    files = (ROOT / "planner" / package).rglob("*.py")
    assert {str(path): found for path in files if (found := by_name(path.read_text(encoding="utf-8")))} == {}


def test_a_question_of_a_name_is_found() -> None:
    assert by_name("held = case.engine.name == 'ddp' and self.runtime.name in WRITERS") == [
        "case.engine.name == 'ddp'",
        "self.runtime.name in WRITERS",
    ]
    assert by_name("same = one.runtime.name == other.runtime.name or runtime.name in names") == []


@EVERY
def test_a_trait_has_a_meaning_and_a_number_has_a_unit(trait: Trait) -> None:
    assert re.fullmatch(r"[A-Z].{20,}\.", trait.meaning, re.DOTALL)
    assert bool(trait.unit) == (trait.kind is float)
    assert "[" not in trait.meaning


UNASKED = {
    "fused_norm": "a run table's column and statements say it",
    "grouped_scan": "of one mixer's kernel, by model type",
    "vocab_parallel_loss": "whose logits stay divided, whatever the loss",
    "padded_vocabulary": "a statement of runs says it",
    "after_others": "how a program counts steps: a statement of runs",
    "encoder_again": "of encoders alone, by model type",
    "shard_levels": "a setting that is priced, and that no runner has",
    "switch_reductions": "NCCL's NVLS, which a cluster's environment switches",
    "neighbouring_experts": "a benchmark's gate",
    "deterministic": "a statement of runs, and a flag that is read",
}
"""Yes or no that no runtime's files ask for, and why each is no record of the code that does it."""


def test_a_yes_or_no_is_a_switch_that_a_runner_has() -> None:
    """What only tells one code from another is a word, whose record says the rest of that code."""
    asked = {name for runtime in runtimes().values() for name in runtime.settings}
    switches = {name for name, trait in TRAITS.items() if trait.kind is bool}
    assert switches - asked == set(UNASKED)


@EVERY
def test_a_value_goes_in_and_comes_out_by_its_flat_name(trait: Trait) -> None:
    word = next((word for word in trait.words if word != trait.default), "")
    other = {bool: not trait.default, float: 0.375}.get(trait.kind, word)
    stack = Traits().with_values(**{trait.name: other})
    plain = Traits().flat()
    changed = {name: value for name, value in stack.flat().items() if value != plain[name]}
    assert changed.keys() - trait.brings.keys() == {trait.name}
    assert getattr(getattr(stack, trait.subject), trait.field) == stack.value_of(trait.name) == other


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="no trait atention"):
        Traits().with_values(atention="flash-2")


def test_something_reads_every_trait() -> None:
    files = [path for path in (ROOT / "planner").rglob("*.py") if "_traits" not in path.parts]
    texts = [text for path in files if "traits." in (text := path.read_text(encoding="utf-8"))]
    whole = "\n".join(texts)
    unread = [
        trait.name
        for trait in TRAITS.values()
        if f".{trait.subject}.{trait.field}" not in whole
        and not any(f"traits.{trait.subject}\n" in text and f"traits.{trait.field}" in text for text in texts)
    ]
    assert unread == []


def test_the_glossary_says_what_a_trait_means() -> None:
    done = planner("glossary", "loss_chunks")
    text = " ".join(done.out.split())
    assert (done.code, TRAITS["loss_chunks"].meaning in text) == (0, True)
    assert "a number from 1 to 1e+15; 1.0 unless" in text


@every("name", list(runtimes()))
def test_a_runtime_may_be_sent_to_another_process(name: str) -> None:
    """As `planner sweep` does: nothing of it is a function without a name."""
    assert pickle.loads(pickle.dumps(runtimes()[name])) == runtimes()[name]
