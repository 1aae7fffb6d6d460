"""What transformers' layers keep for backward, by hand: experts' results, gates, routers and norms.

Counted in transformers 5.23 with ``torch.autograd.graph.saved_tensors_hooks`` (tests/validate/check_kept.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.operators import Operator, Pricer
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.hub.config import architecture

PLAN, TOKENS = Plan(dp=8.0, zero=2, zero_shards=8.0), 2048


def operators(name: str, runtime: str, plan: Plan = PLAN) -> dict[str, Operator]:
    """Price the last layer of a model."""
    model = runtimes()[runtime].trained(load_model(name))
    asked = Job(model, load_hardware("dgx-h100"), 8, Workload(seq_len=TOKENS, global_batch=8))
    pricer = Pricer(case_of(plan, asked, runtimes()[runtime].for_model(model)), plan)
    return {one.name: one for one in block_operators(pricer, model.blocks[model.layers[-1]])}


@pytest.mark.parametrize("runtime", ["fsdp", "deepspeed"])
def test_results_of_experts_are_kept_for_their_scores(runtime: str) -> None:
    """``moe.py``: ``weighted_out = proj_out * sample_weights_g``, on a GPU and on a processor."""
    assert float(operators("olmoe-1b-7b", runtime)["experts_out"].saved) == 2 * 8 * TOKENS * 2048
    assert float(operators("qwen3-30b-a3b", runtime)["experts_out"].saved) == 2 * 8 * TOKENS * 2048
    parallel = replace(PLAN, ep=8.0)
    assert float(operators("qwen3-30b-a3b", runtime, parallel)["experts_out"].saved) == 0


def test_dbrx_keeps_them_weighed_too() -> None:
    """``index_add_`` keeps what it adds."""
    assert float(operators("dbrx", "fsdp")["experts_out"].saved) == 4 * 4 * TOKENS * 6144


@pytest.mark.parametrize("runtime", ["megatron-lm", "torchtitan"])
def test_others_multiply_before_the_last_product_or_in_the_sum(runtime: str) -> None:
    assert float(operators("qwen3-30b-a3b", runtime)["experts_out"].saved) == 0


def test_a_gate_on_shared_experts_keeps_their_result() -> None:
    found = operators("qwen1.5-moe-a2.7b", "fsdp")
    assert float(found["shared_experts_out"].saved) == 2 * TOKENS * 2048
    assert float(operators("glm-4.5-air", "fsdp")["shared_experts_out"].saved) == 0


@pytest.mark.parametrize(
    ("name", "experts", "hidden"), [("glm-4.5-air", 128, 4096), ("deepseek-v3", 256, 7168)]
)
def test_a_router_keeps_its_tokens_in_fp32(name: str, experts: int, hidden: int) -> None:
    assert float(operators(name, "fsdp")["router"].saved) == TOKENS * (8 * experts + 4 * hidden)
    assert float(operators("qwen3-30b-a3b", "fsdp")["router"].saved) == TOKENS * 8 * 128


def test_what_norms_keep() -> None:
    """An fp32 copy and the normalised element, and the result where a product reads it."""
    glm, olmo = operators("glm-4-9b-0414", "fsdp"), operators("olmo-7b", "fsdp")
    kept = {name: float(glm[name].kept + glm[name].saved) / TOKENS for name in ("norm_0", "norm_1")}
    assert kept == {"norm_0": 4096 * (4 + 2 + 2) + 4, "norm_1": 4096 * (4 + 2) + 4}
    assert float(olmo["norm_0"].kept + olmo["norm_0"].saved) / TOKENS == 4096 * (4 + 2) + 4
    olmoe = operators("olmoe-1b-7b", "fsdp")["norm_0"]
    assert float(olmoe.kept + olmoe.saved) / TOKENS == 2048 * (4 + 2 + 2) + 4


def test_xielu_keeps_what_its_chain_makes() -> None:
    """Nine bytes of each element of the feed-forward, seven beside its input; one kernel keeps the input."""
    raw = {
        "model_type": "apertus", "hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072, "hidden_act": "xielu",
        "max_position_embeddings": 65536,
    }  # fmt: skip
    model = model_from_config(raw, "config.json", "apertus-8b").model
    asked = Job(model, load_hardware("dgx-h100"), 8, Workload(seq_len=TOKENS, global_batch=8))
    found = {}
    for compiled in (False, True):
        own = runtimes()["fsdp"].for_model(model).with_traits(compiled=compiled)
        pricer = Pricer(case_of(PLAN, asked, own), PLAN)
        layer = block_operators(pricer, model.blocks[model.layers[0]])
        found[compiled] = next(one for one in layer if one.name == "mlp_in")
    assert float(found[False].saved) == 9 * TOKENS * 21504
    assert float(found[True].saved) == 2 * TOKENS * 21504
    assert architecture(model) == "apertus"
