"""Megatron-Bridge's own code builds hybrids as they are meant, on every stage.

Needs what `test_bridge_plans` needs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge import ENTRY
from tests.validate.megatron.expected import rank_adapters
from tests.validate.megatron.test_bridge_vision import bridge, judged, pytestmark

__all__ = ["bridge", "pytestmark"]

WHOLE = Plan(dp=16.0, zero=1, zero_shards=16.0, micro_batch=1.0, num_microbatches=4.0)
PLANS = (
    WHOLE,
    replace(WHOLE, ep=8.0),
    replace(WHOLE, pp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=8.0),
    replace(WHOLE, tp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=8.0, sequence_parallel=True),
)


def held(plan: Plan, job: Job) -> float:
    """Return the priced parameters of one rank of each stage, together."""
    model, pricer = job.model, Pricer(case_of(plan, job, ENTRY), plan)
    names = [*model.blocks, *(["prediction"] if model.prediction else [])]
    priced = {name: float(total(priced_layer(pricer, name).operators, "params")) for name in names}
    layers = sum(many * priced[name] for name, many in model.layer_counts.items())
    if model.prediction:
        layers += model.prediction.layers * (priced[model.prediction.block] + priced["prediction"])
        layers += model.norm_params  # a copy of the last norm, and on a stage without it the embedding
        layers += model.vocab * model.hidden / plan.tp if plan.pp > 1 else 0.0
    return layers + 2 * model.vocab * model.hidden / plan.tp + model.norm_params


@pytest.mark.parametrize("name", ["nemotron-3-nano-30b-a3b", "nemotron-3-super-120b-a12b", "nemotron-h-56b"])
def test_the_stages_of_a_hybrid_hold_the_model(bridge: Any, tmp_path: Path, name: str) -> None:
    """Nemotron 3 with experts, in a latent space too, and Nemotron-H with dense feed-forwards."""
    model = ENTRY.trained(load_model(name))
    for plan in PLANS if model.expert_kinds else (WHOLE, *PLANS[2:]):
        job = Job(model, load_hardware("dgx-h100"), 16, Workload(seq_len=4096, global_batch=64))
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY)))
        verdict = judged(bridge, tmp_path, plan, job)
        assert verdict.error == ""
        found = verdict.derived
        for axis in ("tp", "pp", "dp", "ep", "zero_shards", "micro_batch", "num_microbatches"):
            assert found[axis] == getattr(plan, axis), axis
        assert sum(len(stage) for stage in found["layers"]) == plan.pp
        parts = sum(bool(model.blocks[one].mixer) + bool(model.blocks[one].ffn) for one in model.layers)
        assert sum(sum(stage) for stage in found["layers"]) == parts
        assert sum(found["params"]) == held(plan, job)
        assert judged(bridge, tmp_path, plan, job, smoke=True).error == ""


@pytest.mark.parametrize("name", ["nemotron-3-nano-30b-a3b", "nemotron-h-8b", "nemotron-nano-9b-v2"])
def test_the_stages_of_a_hybrid_carry_adapters(bridge: Any, tmp_path: Path, name: str) -> None:
    """As its own recipes have them: beside the products of Mamba layers too."""
    model, tuned = load_model(name), Workload(seq_len=4096, global_batch=64, method="lora", lora_rank=16)
    job = Job(model, load_hardware("dgx-h100"), 16, tuned)
    for plan in PLANS if model.expert_kinds else (WHOLE, *PLANS[2:]):
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY)))
        verdict = judged(bridge, tmp_path, plan, job)
        assert verdict.error == ""
        assert verdict.derived["adapters"] == rank_adapters(plan, job)
