"""Money, energy and days of a step and of a training, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.money import bill_of
from planner.inputs.record import Sourced
from planner.runtimes._family import Job
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
