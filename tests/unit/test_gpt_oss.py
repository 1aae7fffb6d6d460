"""What gpt-oss runs outside the fused kernels of Megatron-core, by hand."""

from dataclasses import replace

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import activation_operator, rotary_traffic
from planner.cost.layer.expert_host import clamp_waits_seconds
from planner.cost.layer.operators import Pricer
from planner.cost.step.layout import split_of
from planner.formulas import elementwise as traffic
from planner.inputs.load import load_model
from planner.inputs.numerics import RopeScaling
from planner.runtimes.family import Runtime
from planner.runtimes.hub.config import architecture, attention_name, unwritten
from tests.cases import every
from tests.unit.cost_jobs import any_runtime, job, plan_of, runtime

GPT_OSS, QWEN = load_model("gpt-oss-120b"), load_model("qwen3-30b-a3b")


def pricer(model: object, runner: Runtime | None = None) -> Pricer:
    work = job(model, 8, global_batch=8)  # type: ignore[arg-type]
    plan = plan_of(work, ep=8, dp=8)
    return Pricer(case_of(plan, work, runner or runtime()), plan)


def test_bounds_of_the_gate_move_their_bytes_beside_the_fused_kernel() -> None:
    plain, bounded = (activation_operator(pricer(model), "a", "mlp", 1e9, True) for model in (QWEN, GPT_OSS))
    # 6 and 10 bytes fused; 16 and 20 more for chunk, bounds and joining.
    assert traffic.GATED[True].beside(traffic.CLAMP)[:2] == (22.0, 30.0)
    assert bounded.forward > 2 * plain.forward
    assert bounded.backward > 2 * plain.backward
    compiled = pricer(GPT_OSS, runtime(compiled=True))
    assert activation_operator(compiled, "a", "mlp", 1e9, True).forward == pytest.approx(
        plain.forward, rel=0.2
    )


def test_positions_that_scale_what_they_turn_are_not_fused() -> None:
    assert rotary_traffic(pricer(GPT_OSS)) == traffic.ROTARY_HALVES
    assert rotary_traffic(pricer(QWEN)) == traffic.ROTARY[True]
    assert rotary_traffic(pricer(GPT_OSS, runtime(compiled=True))) == traffic.ROTARY[True]


@every(
    ("scaling", "stretches"),
    [
        ({"kind": "yarn", "factor": 32.0}, True),
        ({"kind": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}, False),
        ({"kind": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7}, True),
        ({"kind": "yarn", "factor": 4.0, "attention_factor": 1.0}, False),
        ({"kind": "linear", "factor": 2.0}, False),
    ],
)
def test_yarn_scales_values_but_where_its_factors_cancel(scaling: dict[str, object], stretches: bool) -> None:
    assert RopeScaling.model_validate(scaling).stretches_values is stretches


def test_a_second_wait_is_a_third_of_the_launches_and_gone_under_a_graph() -> None:
    told = {"expert_host_seconds": 6e-4}
    assert clamp_waits_seconds(pricer(GPT_OSS, runtime(**told)), 16.0) == pytest.approx(16 * 6e-4 / 3)
    assert clamp_waits_seconds(pricer(GPT_OSS, runtime(**told, graphed="passes")), 16.0) == 0.0
    assert clamp_waits_seconds(pricer(QWEN, runtime(**told)), 16.0) == 0.0


def test_megatron_cuts_unlike_layers_evenly_and_a_search_may_balance_them() -> None:
    work = job(GPT_OSS, 8, global_batch=8)
    plan = plan_of(work, pp=4, dp=2)
    assert split_of(plan, case_of(plan, work, runtime())) == (9, 9, 9, 9)
    balanced = any_runtime()
    free = replace(balanced, own_split=None)
    assert split_of(plan, case_of(plan, work, free)) != (9, 9, 9, 9)
    uneven = plan_of(work, pp=8, dp=1)
    assert sum(split_of(uneven, case_of(uneven, work, runtime()))) == GPT_OSS.num_layers


def test_transformers_writes_gpt_oss_with_eager_attention() -> None:
    """With windows or without, whatever its longest sequence: no kernel of PyTorch's own has sinks."""
    small = load_model("gpt-oss-20b")
    assert (architecture(small), unwritten(small)) == ("gpt_oss", ())
    assert attention_name(small, "flash-2") == "eager"
    bare = small.model_copy(update={"max_positions": None})
    assert architecture(bare) == "gpt_oss"


def test_a_model_without_sinks_is_no_gpt_oss() -> None:
    small = load_model("gpt-oss-20b")
    blocks = {
        name: block.model_copy(update={"mixer": block.mixer.model_copy(update={"sinks": False})})  # type: ignore[union-attr]
        for name, block in small.blocks.items()
    }
    assert architecture(small.model_copy(update={"blocks": blocks})) != "gpt_oss"
