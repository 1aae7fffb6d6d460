"""Options are defined once and spread; help names every technique; traits are read in their type."""

from __future__ import annotations

import inspect
import math
from typing import get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from planner.cli.options import JobOptions, OutputOptions, PlanOptions, spread
from planner.cost.estimate import estimate
from planner.plan import Plan
from planner.question.job import range_counts
from planner.question.reading import Reading
from planner.question.traits import trait_changes
from planner.runtimes import runtimes
from planner.runtimes.trait_values import expected, is_allowed, words_of
from planner.runtimes.traits import TRAITS, Traits
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.precision import PRECISIONS
from planner.techniques.recompute import RECOMPUTES
from tests.cases import every
from tests.texts import LETTERS
from tests.unit.cost_jobs import any_runtime, job, random_plans

MAY_BE_NOTHING = [name for name in TRAITS if TRAITS[name].kind is float and is_allowed(name, 0.0)]


def test_records_become_options_and_records_again() -> None:
    seen = {}

    @spread
    def command(job: JobOptions, plan: PlanOptions, shown: OutputOptions, other: int = 3) -> None:
        seen.update(job=job, plan=plan, shown=shown, other=other)

    names = list(inspect.signature(command).parameters)
    assert names[:2] == ["model", "hardware"]
    assert names[-1] == "other"
    values = {
        name: None if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in inspect.signature(command).parameters.items()
    }
    command(**(values | {"model": "m", "tp": "2", "other": 4}))
    assert (seen["job"].model, seen["plan"].tp, seen["other"]) == ("m", "2", 4)


def test_every_axis_of_a_plan_is_an_option() -> None:
    derived = {"num_microbatches", "prediction_apart"}
    assert set(PlanOptions.__dataclass_fields__) == set(Plan.__dataclass_fields__) - derived


@every(
    ("record", "field", "table"),
    [
        (JobOptions, "precision", PRECISIONS),
        (JobOptions, "optimizer", OPTIMIZERS),
        (JobOptions, "method", METHODS),
        (PlanOptions, "cp_method", CONTEXT_METHODS),
        (PlanOptions, "offload", OFFLOADS),
        (PlanOptions, "recompute", RECOMPUTES),
    ],
)
def test_help_names_every_technique(record: type, field: str, table: dict[str, object]) -> None:
    text = get_type_hints(record, include_extras=True)[field].__metadata__[0].help
    assert [name for name in table if name not in text] == []


@every(
    ("text", "value"),
    [("1.5T", 1.5e12), ("15e12", 1.5e13), ("300B", 3e11), ("4Mi", 4194304.0), ("1_000,000", 1e6)],
)
def test_amounts(text: str, value: float) -> None:
    reading = Reading()
    assert reading.amount("--tokens", text) == value
    assert reading.problems == []


@every(
    ("text", "spans"),
    [
        ("16,24,32", ((16, 16), (24, 24), (32, 32))),
        ("16, 24", ((16, 16), (24, 24))),
        ("128,256", ((128, 128), (256, 256))),
        ("8,16..32", ((8, 8), (16, 32))),
        ("1,024", ((1024, 1024),)),
        ("2,048..4_096", ((2048, 4096),)),
        ("16384", ((16384, 16384),)),
        ("16,,24", None),
        ("32..16", None),
    ],
)
def test_a_list_of_accelerators_is_a_list(text: str, spans: tuple[tuple[int, int], ...] | None) -> None:
    reading = Reading()
    assert reading.counts("--gpus", text) == spans
    assert bool(reading.problems) == (spans is None)


def test_one_number_of_accelerators_may_have_its_thousands_grouped() -> None:
    assert Reading().counts("--gpus", "16,384", several=False) == ((16384, 16384),)
    assert Reading().counts("--gpus", "16,24", several=False) is None


@every("text", ["10,24", "16,24,32", "1_6", "1,0245", "0,128", "1,024,", "1,02"])
def test_a_comma_that_groups_no_thousands_is_refused(text: str) -> None:
    for read in ("count", "amount", "length"):
        reading = Reading()
        assert getattr(reading, read)("--x", text) is None
        assert len(reading.problems) == 1
    assert float(Reading().count("--x", "1,024") or 0) == 1024.0
    assert Reading().amount("--x", "1,5T") is None


@given(st.text(LETTERS))
def test_any_text_is_a_number_or_a_fault(text: str) -> None:
    for read in ("count", "amount", "memory", "counts", "whole_list"):
        reading = Reading()
        value = getattr(reading, read)("--x", text)
        assert (value is None) == bool(reading.problems)


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([1, 4, 8, 16]))
def test_counts_of_a_range_fill_nodes_or_are_parts_of_one(one: int, other: int, node: int) -> None:
    low, high = min(one, other), max(one, other)
    counts = range_counts(low, high, node)
    assert counts
    assert list(counts) == sorted(set(counts))
    assert all(low <= count <= high for count in counts)
    if any(count % node == 0 for count in range(low, high + 1)) and low < high:
        assert all(count % node == 0 or node % count == 0 for count in counts)


@every("name", TRAITS)
def test_the_traits_of_every_runtime_may_be_set(name: str) -> None:
    for runtime in runtimes().values():
        value = runtime.traits.value_of(name)
        assert is_allowed(name, value), (runtime.name, value)
    assert isinstance(Traits().value_of(name), TRAITS[name].kind)
    for wrong in (math.nan, math.inf, -1.0, "no such word", None):
        assert not is_allowed(name, wrong)
    assert expected(name)


@every("name", MAY_BE_NOTHING)
def test_a_trait_that_may_be_nothing_leaves_a_price(name: str) -> None:
    changed = any_runtime(**{name: 0.0})
    for plan in random_plans(job(), changed, 2, seed=5):
        known = estimate(plan, job(), changed)
        assert math.isfinite(known.step * known.peak)


def test_changes_of_traits_are_typed() -> None:
    reading = Reading()
    changes = trait_changes(
        [
            "attention=Flash-2",
            "fused-norm=no",
            "framework_bytes=3 GiB",
            "tp_exposed=0.5",
            "gradient_dtype=bf16",
        ],
        reading,
    )
    assert reading.problems == []
    assert changes == {
        "attention": "flash-2",
        "fused_norm": False,
        "framework_bytes": 3 * 2.0**30,
        "tp_exposed": 0.5,
        "gradient_dtype": "bf16",
    }
    assert words_of("attention")
