"""The host as a floor of the step: by hand, in every technique that spares it, and in the played step."""

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.step.host_time import host_step_seconds
from planner.report.limits import limits
from planner.report.unproven import unproven_host
from planner.runtimes import runtimes
from planner.runtimes.eager import HOST as EAGER
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

HOST = {"host_layer_seconds": 3e-3, "host_context_seconds": 2e-3, "host_step_seconds": 0.02}


def seconds(
    gpus: int = 4, batch: int = 8, traits: dict[str, object] | None = None, **degrees: object
) -> float:
    work = job(MODELS["dense"], gpus, global_batch=batch)
    case = case_of(plan_of(work, **degrees), work, runtime(**{**HOST, **(traits or {})}))
    return float(host_step_seconds(case, plan_of(work, **degrees)))


def test_layers_of_each_micro_batch_and_the_step_by_hand() -> None:
    layers = job(MODELS["dense"], 4, global_batch=8).model.num_layers
    assert seconds(dp=4) == pytest.approx(0.02 + 2 * layers * 3e-3)
    assert seconds(pp=2, dp=2) == pytest.approx(0.02 + (4 + 1) * layers / 2 * 3e-3)
    assert seconds(cp=2, dp=2) == pytest.approx(0.02 + 4 * layers * 5e-3)
    assert seconds(dp=4, recompute="full") == pytest.approx(0.02 + 2 * layers * 4e-3)


def test_graphs_of_all_passes_leave_the_step_and_fills_of_new_tensors_add_launches() -> None:
    layers = job(MODELS["dense"], 4, global_batch=8).model.num_layers
    assert seconds(dp=4, traits={"graphed": "passes"}) == pytest.approx(0.02)
    assert seconds(dp=4, traits={"graphed": "attention"}) == pytest.approx(0.02 + 2 * layers * 1.5e-3)
    filled = seconds(dp=4, traits={"deterministic": True, "host_filling_share": 0.5})
    assert filled == pytest.approx(0.02 + 2 * layers * 4.5e-3)
    assert seconds(dp=4, traits={"host_filling_share": 0.5}) == seconds(dp=4)


@every("degrees", [{"dp": 4}, {"pp": 2, "dp": 2}, {"tp": 2, "dp": 2}])
def test_a_step_takes_the_longer_of_device_and_host(degrees: dict[str, int]) -> None:
    work = job(MODELS["dense"], 4, global_batch=8)
    plan = plan_of(work, **degrees)
    free, bound = estimate(plan, work, runtime()), estimate(plan, work, runtime(**HOST))
    assert bound.step == pytest.approx(max(free.step, seconds(**degrees)))
    assert bound.time.other == pytest.approx(bound.step - free.step)
    assert sum(vars(bound.time).values()) == pytest.approx(bound.step)
    assert limits(bound)[0].startswith("host")
    assert bound.bound <= bound.step
    assert play_plan(plan, work, runtime(**HOST)).step == pytest.approx(bound.step)


def test_a_device_with_work_enough_never_waits() -> None:
    work = job(MODELS["dense"], 4, global_batch=8)
    brief = {name: 1e-4 * value for name, value in HOST.items()}
    plan = plan_of(work, dp=4)
    assert estimate(plan, work, runtime(**brief)).step == estimate(plan, work, runtime()).step


def test_a_compiled_layer_launches_half_and_adapters_launch_more() -> None:
    layers = job(MODELS["dense"], 4, global_batch=8).model.num_layers
    assert seconds(dp=4, traits={"compiled": True}) == pytest.approx(0.02 + 2 * layers * 1.5e-3)
    work = job(MODELS["dense"], 4, global_batch=8, method="lora", lora_targets=("qkv",))
    # three of PEFT, an eighth of a layer each; one of the core's, two modules of five and twelve operations
    for separate, more in ((True, 3e-3 * 3 / 8), (False, 3e-3 * 2 / 5 + 12 * 12.5e-6)):
        traits = runtime(**HOST, adapters="peft" if separate else "megatron")
        case = case_of(plan_of(work, dp=4), work, traits)
        expected = 0.02 + 2 * layers * (3e-3 + more)
        assert float(host_step_seconds(case, plan_of(work, dp=4))) == pytest.approx(expected)


@every("name", ["fsdp", "deepspeed", "torchtitan"])
def test_eager_steps_of_a_tiny_batch_are_their_launches(name: str) -> None:
    """A layer of some 120 operations, at 5 to 25 microseconds each, takes 0.6 to 3 ms at least."""
    each = EAGER["host_layer_seconds"]
    assert 0.6e-3 < each < 3e-3
    work = job(MODELS["dense"], 1, global_batch=1, seq_len=128)
    eager = runtimes()[name].with_traits(compiled=False)
    assert estimate(plan_of(work), work, eager).step >= work.model.num_layers * each


def test_a_step_that_waits_for_a_counted_host_says_that_no_run_tests_it() -> None:
    work = job(MODELS["dense"], 1, global_batch=1, seq_len=128)
    eager = runtimes()["fsdp"].with_traits(compiled=False)
    (doubt,) = unproven_host(estimate(plan_of(work), work, eager))
    assert "120 launches of a layer at 12.5 µs" in doubt
    assert unproven_host(estimate(plan_of(work), work, runtimes()["megatron-lm"])) == []
    large = job(MODELS["dense"], 1, global_batch=8, seq_len=8192)
    assert unproven_host(estimate(plan_of(large, micro_batch=8), large, eager)) == []
