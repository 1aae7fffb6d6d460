"""The judges of launch files know every rule: what the runtime's own code takes is no surprise to them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest

from planner.inputs.load import load_model, model_names
from planner.plan import Plan
from planner.rules import structural_rules
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from tests.cases import every
from tests.unit.runner_jobs import job, plan
from tests.validate.known_rules import NEVER, NEVER_ALONE, REFUSED, UNSEEN
from tests.validate.megatron.plans import random_case
from tests.validate.megatron.tally import CHANGED, FIRST_STEP, KEPT
from tests.validate.random_plans import Case, draw

DRAWS = 600


@cache
def drawn(name: str) -> list[Case]:
    dice, runtime = random.Random(3), runtimes()[name]
    found = (draw(dice, runtime) for _ in range(DRAWS))
    return [case for case in found if not runtime.unwritten(case.job.model)]


def rules_of(runtime: Runtime, pairs: Iterable[tuple[Job, Plan]]) -> set[str]:
    """Return the rules of random plans, and of a plan of each known model."""
    tasks = [job(load_model(name), 8) for name in model_names()]
    return {
        rule.name
        for task, layout in [*pairs, *((task, plan(task)) for task in tasks)]
        for rule in [
            *structural_rules(layout, task.model, task.workload, task.gpus),
            *runtime.rules(layout, task),
        ]
    }


def never(name: str, alone: bool = False) -> list[str]:
    """Return the rules that random plans are said to break never, or never alone."""
    table = NEVER_ALONE if alone else NEVER
    return [*table[""], *table.get(name, ())]


@pytest.mark.parametrize("name", UNSEEN)
def test_every_rule_is_known_to_the_judge_once(name: str) -> None:
    known = [*UNSEEN[name], *REFUSED[name], *never(name, alone=True), *never(name)]
    assert [rule for rule, times in Counter(known).items() if times > 1] == []
    pairs = [(case.job, case.plan) for case in drawn(name)]
    assert rules_of(runtimes()[name], pairs) == set(known)


@every("name", UNSEEN)
def test_what_is_said_of_random_plans_holds(name: str) -> None:
    broken = [{violation.rule for violation in case.broken} for case in drawn(name)]
    assert not set(never(name)) & set().union(*broken)
    assert not set(never(name, alone=True)) & set().union(*(one for one in broken if len(one) == 1))


def test_every_rule_on_megatron_core_is_known_to_its_judges_once() -> None:
    dice, known = random.Random(3), [*FIRST_STEP, *CHANGED, *KEPT]
    pairs = [random_case(dice) for _ in range(400)]
    found = [rules_of(runtimes()[name], pairs) for name in ("megatron-lm", "megatron-bridge")]
    assert [rule for rule, times in Counter(known).items() if times > 1] == []
    assert set().union(*found) == set(known)
