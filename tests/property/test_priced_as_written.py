"""The law of settings: a plan is priced as its files run it, whatever is set.

Files that were written are read back, and what they say is priced: the same seconds and the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cli.estimate import read
from planner.cli.from_file import asked_of
from planner.cli.options import JobOptions, PlanOptions
from planner.cost.estimate import Estimate, estimate
from planner.cost.price import price
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.question.formats import formats
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import ANY, Changes
from planner.techniques.settings import SETTINGS
from tests.deep import deep
from tests.unit.test_settings_round_trip import NAMED
from tests.validate.megatron.plans import SIZE, legal_plans
from tests.validate.random_plans import draw

SEEDS = {
    "megatron-lm": 21,
    "megatron-bridge": 22,
    "deepspeed": 23,
    "fsdp": 24,
    "nanotron": 25,
    "torchtitan": 26,
}
"""Seed of the plans of each runtime."""

COUNT = 7
"""Plans of each runtime."""

MODELS = ("llama3-8b", "llama2-7b", "qwen2.5-7b", "mixtral-8x7b", "deepseek-v2-lite", "gpt2", "gemma2-9b")


def plans(runtime: Runtime) -> Iterator[tuple[Job, Plan]]:
    """Yield legal plans of models and clusters that files can name."""
    if runtime.name.startswith("megatron"):
        yield from legal_plans(SEEDS[runtime.name], COUNT, runtime)
        return
    dice, cluster, left = random.Random(SEEDS[runtime.name]), load_hardware("dgx-h100"), COUNT
    while left:
        case = draw(dice, runtime)
        model = load_model(dice.choice(MODELS))
        length = min(1024 if model.learned_positions else 8192, case.job.workload.seq_len)
        work = case.job.workload.model_copy(update={"seq_len": length})
        job = replace(case.job, model=model, hardware=cluster, workload=work)
        written = not runtime.unwritten(model) and work.precision in formats(cluster)
        if written and work.tokens_per_step < 5e8 and not broken(case.plan, job, runtime):
            left -= 1
            yield job, case.plan


def broken(plan: Plan, job: Job, runtime: Runtime) -> tuple[str, ...]:
    """Return the rules that a plan breaks; one where it has no price."""
    return tuple(fault.rule for fault in price(plan, job, runtime).violations)


def each_setting(runtime: Runtime) -> list[Changes]:
    """Return no change, each trait that files can set, and values of each setting."""
    alone = [
        {trait: SIZE if value == ANY else value}
        for trait, values in runtime.settings.items()
        for value in dict.fromkeys((*values[:2], values[-1]))
    ]
    known = [list(SETTINGS[name].values.values()) for name in runtime.searched]
    whole = [changes for values in known for changes in (*values[:3], values[-1])]
    every = [{}, *alone, *whole]
    return [changes for place, changes in enumerate(every) if changes not in every[:place]]


def tried(changes: list[Changes], number: int) -> list[Changes]:
    """Return what is set of a plan, by its number: nothing, and a third of all in turn."""
    return [
        one for place, one in enumerate(changes) if place == 0 or place % deep(3, 1) == number % deep(3, 1)
    ]


def read_back(files: dict[str, str], job: Job, runtime: Runtime, folder: Path) -> Estimate:
    """Return the price of what written files say."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    asked = asked_of(
        folder / NAMED[runtime.name][0], JobOptions("", hardware=[job.hardware.name]), PlanOptions()
    )
    whole, plan, reader, _, _ = asked.read(read)
    assert asked.origin is not None
    assert asked.origin.found.unknown == ()
    return estimate(plan, whole, reader)


@pytest.mark.parametrize("name", SEEDS)
def test_a_plan_is_priced_as_its_files_run_it(name: str, tmp_path: Path) -> None:
    """Settings that leave a plan's files as they are have one reading; each has its own price.

    Each is set of two plans of seven, or of all with ``make test-deep``.
    """
    plain, started = runtimes()[name], 0
    for number, (job, plan) in enumerate(plans(plain)):
        readings: dict[tuple[tuple[str, str], ...], Estimate] = {}
        for changes in tried(each_setting(plain), number):
            runtime = plain.for_model(job.model).with_traits(**changes)
            priced = estimate(plan, job, runtime)
            if priced.violations:
                continue
            target = Target(runtime, launchers()["torchrun"], plain.versions[0])
            files = launch_files(plan, job, target, Card())
            started += 1
            if (known := tuple(files.items())) not in readings:
                readings[known] = read_back(files, job, plain, tmp_path / f"{number}-{started}")
            again = readings[known]
            if again.job.model.numerics != job.model.numerics:  # those of the zoo, as a note says
                priced = estimate(plan, replace(job, model=again.job.model), runtime)
            assert again.step == pytest.approx(priced.step, rel=1e-9), (changes, plan)
            assert again.peak == pytest.approx(priced.peak, rel=1e-9), (changes, plan)
    assert started >= COUNT
