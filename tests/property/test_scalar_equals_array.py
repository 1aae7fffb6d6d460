"""One plan or a column of plans: the same lines give the same bits."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.step.parts import PlanParts
from planner.formulas.pipeline import Pipe
from planner.runtimes.family import Runtime
from planner.search.candidates import ScanReport
from planner.search.choices import choices_of
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from tests.cases import every
from tests.contract.formula_inputs import FRACTIONS, PLAIN, RANGES, RECORDS, Formula, formulas, record
from tests.unit.cost_jobs import MODELS, any_runtime, job, runtime

DRAWS = 200
ENDLESS = 1e30


def numeric() -> list[Formula]:
    known = {"Num", "int", *RECORDS, *(f"Sequence[{name}]" for name in RECORDS)}
    return [one for one in formulas() if {annotation for annotation, _ in one.parameters.values()} <= known]


def column(name: str, draw: np.random.Generator) -> Any:
    low, high = RANGES.get(name, PLAIN)
    if name in FRACTIONS:
        return draw.uniform(low, high, DRAWS)
    whole = draw.integers(int(low), int(high) + 1, DRAWS).astype(float)
    return whole if name in RANGES else whole * draw.uniform(0.5, 2.0, DRAWS)


def constants(annotation: str) -> Any:
    if annotation == "int":
        return 3
    kind = annotation.removeprefix("Sequence[").removesuffix("]")
    built = record(RECORDS[kind], lambda value, where, unit: value)
    return built if kind == annotation else [built]


def pipes(draw: np.random.Generator) -> Pipe:
    names = {"Pipe.m": "microbatches"}
    made: Pipe = record(Pipe, lambda _, where, __: column(names.get(where, where.partition(".")[2]), draw))
    return made


def at(row: int, values: Any) -> Any:
    if isinstance(values, Pipe):
        return Pipe(*(float(getattr(values, field.name)[row]) for field in fields(Pipe)))
    return float(values[row])


@every("one", numeric(), ids=lambda one: one.name)
def test_a_formula_gives_scalars_and_columns_the_same_bits(one: Formula) -> None:
    draw = np.random.default_rng(1)
    kinds = {name: kind for name, (kind, _) in one.parameters.items()}
    columns = {name: column(name, draw) for name, kind in kinds.items() if kind == "Num"}
    columns |= {name: pipes(draw) for name, kind in kinds.items() if kind == "Pipe"}
    fixed = {name: constants(kind) for name, kind in kinds.items() if name not in columns}
    together = np.broadcast_to(one.function(**columns, **fixed), (DRAWS,))
    rows = [{name: at(row, values) for name, values in columns.items()} for row in range(DRAWS)]
    assert together.tolist() == [float(one.function(**row, **fixed)) for row in rows]


def scanned(name: str, runtime: Runtime, gpus: int, **fixed: Any) -> ScanReport:
    work = job(MODELS[name], gpus)
    space = make_space(work, {key: value for key, value in fixed.items() if isinstance(value, int)})
    choices = choices_of(runtime, fixed)
    return Scan(work, runtime, space, choices, ENDLESS, ENDLESS, keep=10**7).run(objective_column("time"))


@pytest.mark.parametrize(
    ("model", "runtime", "fixed"),
    [
        ("dense", runtime(), {"cp_method": "ring", "offload": "none"}),
        (
            "tied",
            any_runtime(),
            {"cp_method": "all-to-all", "recompute": "selective", "offload": "none", "zero": 3},
        ),
        ("experts", runtime(), {"recompute": "none", "etp": 1}),
        ("latent", any_runtime(), {"recompute": "full:1", "offload": "none", "cp": 1, "zero": 1}),
        ("sliding", runtime("torchtitan"), {}),
        (
            "sliding",
            any_runtime(),
            {"cp_method": "all-gather", "offload": "none", "zero": 2, "recompute": "none"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_scan_gives_a_plan_the_bits_of_its_estimate(
    model: str, runtime: Runtime, fixed: dict[str, Any]
) -> None:
    report = scanned(model, runtime, 8, **fixed)
    work = job(MODELS[model], 8)
    if not report.valid:
        assert model == "sliding", "a runtime that cannot run the model"
        return
    draw = np.random.default_rng(2)
    for index in draw.choice(len(report.best), min(60, len(report.best)), replace=False):
        candidate = report.best[index]
        known = estimate(candidate.plan, work, runtime)
        assert known.violations == ()
        assert (candidate.bound, candidate.total_bytes) == (known.bound, known.peak), candidate.plan
        if not PlanParts(candidate.plan, case_of(candidate.plan, work, runtime)).is_played:
            assert candidate.value == known.step, candidate.plan
