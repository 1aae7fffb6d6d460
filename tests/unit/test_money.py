"""Money, energy and days of a step and of a training, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.api import estimate_plan, load_hardware
from planner.cli.options import JobOptions
from planner.cli.sweep_cases import own_prices
from planner.cost.money import Phases, bill_of, joules_of, quote_of
from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.load_hardware import cluster_names
from planner.inputs.record import Sourced
from planner.inputs.workload import Workload
from planner.question.job import read_job
from planner.question.reading import Reading
from planner.report.plan_file import Names, plan_yaml, read_plan_file
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.optimise import search
from planner.search.request import SearchRequest, objective_bound
from tests.cases import every
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


@every(
    ("name", "basis", "text"),
    [
        ("p5", "cluster", "6.88 USD/h, AWS us-east-1, on demand, 2026-11-09"),
        ("a3-mega", "accelerator", "3.29 USD/h, RunPod, 2026-08-19, not this cluster's"),
        ("a3-high", "cluster", "11.06 USD/h, Google Cloud, list, 2024"),
    ],
)
def test_a_price_says_whose_it_is(name: str, basis: str, text: str) -> None:
    """The figures stand in the files of these clusters and of the H100."""
    quote = quote_of(load_hardware(name).pool)
    assert quote is not None
    assert (quote.basis, quote.text, quote.lent) == (basis, text, basis == "accelerator")


def test_every_price_that_ships_has_seller_and_day() -> None:
    for name in cluster_names():
        quote = quote_of(load_hardware(name).pool)
        assert quote is None or (quote.seller and quote.day and quote.source), name


def test_a_price_of_ones_own_replaces_that_of_the_profile() -> None:
    quote = quote_of(load_hardware("p5", price=2.5).pool)
    assert quote is not None
    assert (quote.basis, quote.text, quote.source) == ("user", "2.5 USD/h, your own", "")
    with pytest.raises(InputError, match="price: found nan; expected a number from 0"):
        load_hardware("p5", price=float("nan"))


def asked(*prices: str) -> tuple[list[float | None], list[str]]:
    """Return the prices of two clusters, and the faults."""
    reading = Reading()
    options = JobOptions("llama3-8b", hardware=["a3-mega", "p5"], gpus="16", price=list(prices))
    found = read_job(options.said, reading)
    rates = [] if found is None else [cluster.pool.price_per_hour for _, cluster in found.clusters]
    return [None if rate is None else float(rate) for rate in rates], [
        str(fault) for fault in reading.problems
    ]


@every(
    ("prices", "rates"),
    [
        ((), [3.29, 6.88]),
        (("2",), [2.0, 2.0]),
        (("2", "5=p5.48xlarge"), [2.0, 5.0]),
        (("5=P5",), [3.29, 5.0]),
        (("0=a3-mega",), [0.0, 6.88]),
    ],
)
def test_a_price_is_of_all_clusters_or_of_one(prices: tuple[str, ...], rates: list[float]) -> None:
    assert asked(*prices) == (rates, [])


@every(
    ("prices", "words"),
    [
        (("3=p4",), "--price: found '3=p4'; expected a cluster of --hardware: a3-mega, p5; nearest: p5"),
        (("3=",), "--price: found '3='"),
        (("-1",), "--price: found '-1'; expected a number from 0"),
        (("cheap=p5",), "--price: found 'cheap'"),
        (("1", "2"), "expected one price for all clusters"),
        (("1=p5", "2=p5.48xlarge"), "expected one price for p5"),
    ],
)
def test_a_price_that_is_none_or_of_no_cluster_is_refused(prices: tuple[str, ...], words: str) -> None:
    faults = asked(*prices)[1]
    assert len(faults) == 1
    assert words in faults[0]


def test_prices_of_a_sweep_are_those_of_its_clusters() -> None:
    prices = ("2.5=a3-mega", "3=p5", "4", "5=mine.yaml", "6=nonsense")
    assert own_prices(prices, "p5.48xlarge") == ["3=p5", "4", "5=mine.yaml", "6=nonsense"]


def test_a_plan_file_keeps_the_price() -> None:
    cluster = load_hardware("p5", price=2.5)
    answer = estimate_plan(
        replace(job(MODELS["dense"], 16), model=load_model("llama3-8b"), hardware=cluster),
        "megatron-lm",
        tp=2,
    )
    text = plan_yaml(answer.job, answer.runtime, answer.plan, Names("llama3-8b", "p5"))
    saved = read_plan_file(Path("plan.yaml"), text)
    assert saved.changed == ()
    assert quote_of(saved.job.hardware.pool) == quote_of(cluster.pool)


def test_energy_is_that_of_each_phase_where_its_watts_are_known() -> None:
    """A100: by hand 8 of them, 400 W for 5 s, 200 W for 3 s, 80 W for 2 s."""
    work = job(MODELS["dense"], 8, hardware="dgx-a100-80gb")
    phases = Phases(computing=5.0, communicating=3.0, waiting=2.0)
    assert joules_of(work, phases) == pytest.approx(8 * (2000 + 600 + 160))
    rated = job(MODELS["dense"], 8, hardware="dgx-h100")
    assert joules_of(rated, phases) == pytest.approx(8 * 700 * 10)


def test_the_plan_of_least_energy_is_not_the_fastest_where_that_only_communicates_more() -> None:
    """Against every plan of a small space, priced by itself."""
    work = Workload(seq_len=4096, global_batch=64)
    asked = SearchRequest(
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
    asked = SearchRequest(
        load_model("llama3-8b"), (load_hardware("dgx-a100-80gb"),), (8,), work, (runtimes()["megatron-lm"],),
        top=50,
    )  # fmt: skip
    for plan in search(asked).plans:
        assert objective_bound("energy", plan.job, plan.bound) <= float(plan.bill.joules_per_step or 0)
