"""Money, energy and days of a step and of a training, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.money import Phases, bill_of, has_phases, joules_of
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.record import Sourced
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.runtimes._family import Job
from planner.search.optimise import search
from planner.search.request import Request, objective_bound
from tests.unit.cost_jobs import MODELS, job


def priced(price: float | None, power: float | None, **workload: Any) -> Job:
    work = job(MODELS["dense"], 64, **workload)
    cost = None if price is None else Sourced(price)
    watts = None if power is None else Sourced(power)
    accelerator = work.hardware.pool.accelerator.model_copy(update={"power": watts, "price": None})
    pool = work.hardware.pool.model_copy(update={"price": cost, "accelerator": accelerator})
    return replace(work, hardware=work.hardware.model_copy(update={"pools": (pool,)}))


def test_a_training_by_hand() -> None:
    # 64 accelerators at 2.50 USD and 700 W, steps of 9 s and 32 * 2048 tokens, 65.536 million tokens.
    bill = bill_of(priced(2.5, 700.0, tokens=65.536e6), 9.0)
    assert bill.usd_per_step == pytest.approx(64 * 2.5 * 9 / 3600)
    assert bill.joules_per_step == 64 * 700 * 9
    assert bill.days_to_train == pytest.approx(9000 / 86400)
    assert bill.usd_to_train == pytest.approx(400.0)


def test_what_is_not_known_is_none() -> None:
    bill = bill_of(priced(None, None), 9.0)
    assert (bill.usd_per_step, bill.joules_per_step, bill.days_to_train, bill.usd_to_train) == (None,) * 4


def test_days_need_no_price() -> None:
    bill = bill_of(priced(None, 700.0, tokens=65.536e6), 9.0)
    assert bill.usd_to_train is None
    assert bill.days_to_train == pytest.approx(9000 / 86400)


def test_energy_is_that_of_each_phase_where_its_watts_are_known() -> None:
    """A100: by hand 8 of them, 400 W for 5 s, 200 W for 3 s, 80 W for 2 s."""
    work = job(MODELS["dense"], 8, hardware="dgx-a100-80gb")
    phases = Phases(computing=5.0, communicating=3.0, waiting=2.0)
    assert joules_of(work, phases) == pytest.approx(8 * (2000 + 600 + 160))
    assert has_phases(work)
    rated = job(MODELS["dense"], 8, hardware="dgx-h100")
    assert not has_phases(rated)
    assert joules_of(rated, phases) == pytest.approx(8 * 700 * 10)


def test_the_plan_of_least_energy_is_not_the_fastest_where_that_only_communicates_more() -> None:
    """Against every plan of a small space, priced by itself."""
    work = Workload(seq_len=4096, global_batch=64)
    asked = Request(
        load_model("llama3-8b"), (load_hardware("dgx-a100-80gb"),), (16,), work, (runtimes()["megatron-lm"],),
        fixed={"cp": 1, "recompute": "none", "micro_batch": 1}, top=1000, uniform=True,
    )  # fmt: skip
    found = search(replace(asked, objective="energy", top=1)).plans[0]
    least = min(float(plan.bill.joules_per_step or 0) for plan in search(asked).plans)
    assert found.bill.joules_per_step == pytest.approx(least)
    watts = float(found.bill.joules_per_step or 0) / found.step / 16
    assert 80 < watts < 400


def test_a_bound_of_energy_is_below_every_plan() -> None:
    work = Workload(seq_len=4096, global_batch=32)
    asked = Request(
        load_model("llama3-8b"), (load_hardware("dgx-a100-80gb"),), (8,), work, (runtimes()["megatron-lm"],),
        top=50,
    )  # fmt: skip
    for plan in search(asked).plans:
        assert objective_bound("energy", plan.job, plan.bound) <= float(plan.bill.joules_per_step or 0)
