"""The parts of a step add up, and each is what its formula says on a case that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.formulas.collectives import ring_seconds
from planner.report.explain_neighbours import changed
from planner.report.waterfall import COMPUTE_PARTS, MEANING, Anatomy, waterfall
from tests.unit.cost_jobs import MODELS, any_runtime, faster, job, plan_of, random_plans, runtime


def priced(fields: dict[str, Any], workload: dict[str, Any] | None = None, model: str = "dense") -> Estimate:
    asked = job(MODELS[model], **(workload or {}))
    return estimate(plan_of(asked, **fields), asked, runtime())


def parts_of(answer: Estimate) -> dict[str, float]:
    return {part.name: part.seconds for part in waterfall(Anatomy(answer))}


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_of_any_plan_add_up_to_its_step(model: str) -> None:
    asked, who = job(MODELS[model]), any_runtime(dp_exposed=0.2, cp_exposed=0.3)
    for plan in random_plans(asked, who, 12, seed=5):
        answer = estimate(plan, asked, who)
        parts = waterfall(Anatomy(answer))
        assert [part.name for part in parts] == list(MEANING)
        assert sum(part.seconds for part in parts) == pytest.approx(answer.step, rel=1e-9)
        assert sum(part.seconds for part in parts if part.name in COMPUTE_PARTS) == pytest.approx(
            answer.time.compute, rel=1e-9
        )
        assert all(part.seconds > -1e-9 * answer.step and part.hidden >= 0 for part in parts)
        host = dict((part.name, part.seconds) for part in parts)["host"]
        assert host == 0 or abs(host) > 1e-12 * answer.step


def test_products_at_the_peak_are_the_model_flops_of_an_undivided_stage() -> None:
    answer = priced({}, {"global_batch": 16})
    useful = parts_of(answer)["useful"]
    assert useful / answer.step == pytest.approx(answer.mfu, rel=1e-3)


def test_adapters_count_two_of_three_products() -> None:
    full, lora = (priced({}, {"method": method}) for method in ("full", "lora"))
    core = sum(4 * 16 * 2048 * 1024 * 128 for _ in range(12)) * 3 * 2 / full.peak_rate
    products = [parts_of(answer)["useful"] - core for answer in (full, lora)]
    assert products[1] / products[0] == pytest.approx(2 / 3, rel=1e-3)
    assert parts_of(lora)["accumulation"] > 0


def test_a_perfect_device_loses_nothing_in_its_products() -> None:
    answer = priced({})
    kernels = answer.job.hardware.pool.accelerator.kernels
    curve = replace(
        kernels.gemm["bf16"], rate=answer.peak_rate, half_k=0.0, half_mn=0.0, wave_weight=0.0, launch=0.0,
        bandwidth=1e30,
    )  # fmt: skip
    kernels = replace(kernels, gemm={**kernels.gemm, "bf16": curve})
    pool = faster(answer.job).hardware.pool
    device = pool.accelerator.model_copy(update={"kernels": kernels, "training_share": None})
    pool = pool.model_copy(update={"accelerator": device})
    perfect = replace(answer.job, hardware=answer.job.hardware.model_copy(update={"pools": (pool,)}))
    parts = parts_of(estimate(answer.plan, perfect, runtime(compute_derate=1.0)))
    for name in ("rate", "tiles", "memory_side", "launch", "casts"):
        assert parts[name] == pytest.approx(0.0, abs=1e-12)


def test_losses_go_where_their_cause_is() -> None:
    base = parts_of(priced({}))
    asked = job()
    slow = parts_of(estimate(plan_of(asked), asked, runtime(compute_derate=0.5)))
    assert slow["rate"] > base["rate"]
    assert slow["launch"] == pytest.approx(base["launch"])
    assert slow["useful"] == pytest.approx(base["useful"])
    assert slow["memory_bound"] == pytest.approx(base["memory_bound"])
    host = parts_of(estimate(plan_of(asked), asked, runtime(host_seconds_forward=1.0)))
    each = (12 + 2) * float(plan_of(asked).num_microbatches)
    assert host["host"] == pytest.approx(each, rel=0.01)
    small = parts_of(priced({}, {"seq_len": 192}))
    assert small["tiles"] / small["useful"] > base["tiles"] / base["useful"]
    assert small["launch"] / small["useful"] > base["launch"] / base["useful"]


def test_recompute_is_a_part_of_its_own_and_changes_no_other() -> None:
    none, full = parts_of(priced({"tp": 2})), parts_of(priced({"tp": 2, "recompute": "full"}))
    assert none["recompute"] == 0
    assert full["recompute"] > 0.2 * none["useful"]
    for name in set(COMPUTE_PARTS) - {"recompute", "host"}:
        assert full[name] == pytest.approx(none[name], rel=1e-9, abs=1e-12)


def test_casts_appear_with_low_precision() -> None:
    assert parts_of(priced({}))["casts"] == 0
    assert parts_of(priced({}, {"precision": "fp8"}))["casts"] > 0


def test_hidden_communication_is_what_the_links_need_less_what_is_exposed() -> None:
    asked = job()
    plan = plan_of(asked, tp=2, zero=0)
    answer = estimate(plan, asked, runtime(dp_exposed=0.0, dp_window=1.0))
    part = {part.name: part for part in waterfall(Anatomy(answer))}["dp_comm"]
    trained = 12 * (2048 * 2048 * 2 + 2048 * 512 * 2 + 3 * 2048 * 8192) / 2 + 2 * 2048 * 32000 / 2
    alone = 2 * ring_seconds(4 * trained, 8.0, 2.0, asked.hardware.pool.tiers)
    assert part.seconds + part.hidden == pytest.approx(float(alone), rel=1e-3)
    exposed = estimate(plan, asked, runtime(dp_exposed=1.0))
    assert {part.name: part.hidden for part in waterfall(Anatomy(exposed))}["dp_comm"] == 0


def test_a_neighbour_keeps_the_accelerators_and_the_batch() -> None:
    answer = priced({"tp": 4, "pp": 2, "zero": 1})
    for axis, value in (("tp", 2.0), ("pp", 1.0), ("cp", 2.0), ("micro_batch", 2.0), ("zero", 0)):
        plan = changed(answer, axis, value)
        assert plan is not None
        assert plan.gpus == 16
        assert plan.micro_batch * plan.num_microbatches * plan.dp == 32
        assert plan.zero_shards == (plan.dp * plan.cp if plan.zero else 1)
    assert changed(answer, "tp", 32.0) is None
    single = changed(priced({"pp": 2, "vpp": 2, "schedule": "interleaved-1f1b"}), "pp", 1.0)
    assert single is not None
    assert (single.vpp, single.schedule, single.stage_layers) == (1.0, "1f1b", None)
