"""Megatron-Bridge's own code builds models whose layers are its own as they are meant, on every stage.

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
from planner.inputs.model import Attention
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge import ENTRY
from planner.runtimes.megatron_lm.flags import padded_vocab
from tests.validate.megatron.expected import rank_adapters
from tests.validate.megatron.test_bridge_vision import bridge, judged, pytestmark

__all__ = ["bridge", "pytestmark"]

WHOLE = Plan(dp=16.0, zero=1, zero_shards=16.0, micro_batch=1.0, num_microbatches=4.0)
SPLIT = replace(WHOLE, tp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=8.0, sequence_parallel=True)
PIPED = replace(WHOLE, pp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=8.0, recompute="full")


def held(plan: Plan, job: Job) -> float:
    """Return the priced parameters of one rank of each stage, with the table padded and what no operator has.

    An extra prediction layer has a norm of its own, and on a last stage that is not the first a third table.
    """
    model, pricer = job.model, Pricer(case_of(plan, job, ENTRY), plan)
    extra = model.prediction.layers if model.prediction else 0
    predicted = ("prediction", model.prediction.block) if model.prediction else ()

    def attention(name: str) -> Attention:
        mixer = model.blocks[name].mixer
        assert isinstance(mixer, Attention)
        return mixer

    priced = {
        name: float(total(priced_layer(pricer, name).operators, "params"))
        for name in (*model.blocks, *predicted[:1])
    }
    layers = sum(many * priced[name] for name, many in model.layer_counts.items())
    sinks = sum(mixer.sinks * mixer.heads for mixer in map(attention, model.layers)) / plan.tp
    if "scaled-router" in model.variants:  # a number for each expert, as whole on every rank as the router
        sinks += sum(model.expert_kinds[0].experts for _ in model.layers)
    tables = (1 if model.tied_embeddings and plan.pp == 1 else 2) + (extra > 0 and plan.pp > 1)
    return (
        layers
        + sinks
        + tables * padded_vocab(model.vocab, plan.tp) * model.hidden / plan.tp
        + model.norm_params
        + extra * (sum(priced[name] for name in predicted) + model.norm_params)
    )


@pytest.mark.parametrize(
    "name",
    [
        "gemma-7b",
        "gemma2-9b",
        "gemma2-27b",
        "gemma3-4b",
        "gemma3-27b",
        "gemma4-26b-a4b",
        "mimo-v2-flash",
        "olmoe-1b-7b",
        "minimax-m2.5",
        "exaone-4.0-32b",
        "k-exaone-236b-a23b",
    ],
)
def test_the_stages_of_own_layers_hold_the_model(bridge: Any, tmp_path: Path, name: str) -> None:
    model = ENTRY.trained(load_model(name))
    for plan in (WHOLE, SPLIT, PIPED, *([replace(WHOLE, ep=8.0)] if model.expert_kinds else [])):
        job = Job(model, load_hardware("dgx-h100"), 16, Workload(seq_len=4096, global_batch=64))
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY.for_model(model))))
        verdict = judged(bridge, tmp_path, plan, job)
        assert verdict.error == ""
        found = verdict.derived
        for axis in ("tp", "pp", "dp", "ep", "zero_shards", "micro_batch", "num_microbatches"):
            assert found[axis] == getattr(plan, axis), axis
        assert sum(sum(stage) for stage in found["layers"]) == model.num_layers
        assert sum(found["params"]) == held(plan, job)
        assert judged(bridge, tmp_path, plan, job, smoke=True).error == ""


@pytest.mark.parametrize(
    "name",
    [
        "gemma-7b",
        "gemma2-9b",
        "gemma3-4b",
        "exaone-4.0-32b",
        "olmoe-1b-7b",
        "minimax-m2.5",
        "k-exaone-236b-a23b",
    ],
)
def test_the_stages_of_own_layers_carry_adapters(bridge: Any, tmp_path: Path, name: str) -> None:
    model, tuned = load_model(name), Workload(seq_len=4096, global_batch=64, method="lora", lora_rank=16)
    job = Job(model, load_hardware("dgx-h100"), 16, tuned)
    for plan in (WHOLE, SPLIT):
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY.for_model(model))))
        verdict = judged(bridge, tmp_path, plan, job)
        assert verdict.error == ""
        assert verdict.derived["adapters"] == rank_adapters(plan, job)
