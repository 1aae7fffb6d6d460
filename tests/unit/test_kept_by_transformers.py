"""What transformers' layers keep for backward, by hand: experts' results, gates, routers and norms.

Counted in transformers 5.23 with ``torch.autograd.graph.saved_tensors_hooks`` (tests/validate/check_kept.py).
"""

from __future__ import annotations

from dataclasses import replace

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
from tests.cases import every

PLAN, TOKENS = Plan(dp=8.0, zero=2, zero_shards=8.0), 2048


def operators(name: str, runtime: str, plan: Plan = PLAN) -> dict[str, Operator]:
    """Price the last layer of a model."""
    model = runtimes()[runtime].trained(load_model(name))
    asked = Job(model, load_hardware("dgx-h100"), 8, Workload(seq_len=TOKENS, global_batch=8))
    pricer = Pricer(case_of(plan, asked, runtimes()[runtime].for_model(model)), plan)
    return {one.name: one for one in block_operators(pricer, model.blocks[model.layers[-1]])}


@every("runtime", ["fsdp", "deepspeed"])
def test_results_of_experts_are_kept_for_their_scores(runtime: str) -> None:
    """``moe.py``: ``weighted_out = proj_out * sample_weights_g``, on a GPU and on a processor."""
    assert float(operators("olmoe-1b-7b", runtime)["experts_out"].saved) == 2 * 8 * TOKENS * 2048
    assert float(operators("qwen3-30b-a3b", runtime)["experts_out"].saved) == 2 * 8 * TOKENS * 2048
    parallel = replace(PLAN, ep=8.0)
    assert float(operators("qwen3-30b-a3b", runtime, parallel)["experts_out"].saved) == 0


def test_dbrx_keeps_them_weighed_too() -> None:
    """``index_add_`` keeps what it adds."""
    assert float(operators("dbrx", "fsdp")["experts_out"].saved) == 4 * 4 * TOKENS * 6144


@every("runtime", ["megatron-lm", "torchtitan"])
def test_others_multiply_before_the_last_product_or_in_the_sum(runtime: str) -> None:
    assert float(operators("qwen3-30b-a3b", runtime)["experts_out"].saved) == 0


def test_a_gate_on_shared_experts_keeps_their_result() -> None:
    found = operators("qwen1.5-moe-a2.7b", "fsdp")
    assert float(found["shared_experts_out"].saved) == 2 * TOKENS * 2048
    assert float(operators("glm-4.5-air", "fsdp")["shared_experts_out"].saved) == 0


@every(("name", "experts", "hidden"), [("glm-4.5-air", 128, 4096), ("deepseek-v3", 256, 7168)])
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


def net(runtime: str) -> dict[str, Operator]:
    """Price a layer of Qwen3.5-27B with a gated delta net: 16 key heads and 48 value heads of 128."""
    model = runtimes()[runtime].trained(load_model("qwen3.5-27b"))
    asked = Job(model, load_hardware("dgx-h100"), 8, Workload(seq_len=TOKENS, global_batch=8))
    pricer = Pricer(case_of(PLAN, asked, runtimes()[runtime].for_model(model)), PLAN)
    return {one.name: one for one in block_operators(pricer, model.blocks["linear-dense"])}


@every("runtime", ["fsdp", "deepspeed"])
def test_a_gated_delta_net_keeps_its_norm_in_fp32_and_no_copies_of_heads(runtime: str) -> None:
    """The scan's kernel keeps normed queries and keys, values, the inverse of a chunk, gates and strengths.

    The norm: its input, gate and silu in fp32, the element normed and weighted, what the product reads.
    """
    found, keys, values = net(runtime), 16 * 128, 48 * 128
    kernel = 2 * (2 * keys + values) + 48 * (2 * 64 + 12)
    chain = values * (3 * 4 + 3 * 2) - 2 * values
    assert float(found["scan"].saved) / TOKENS == kernel + chain
    assert float(found["mixer_in"].saved) / TOKENS == 2 * (2 * keys + 2 * values + 2 * 48)


def test_a_chain_takes_longer_than_one_kernel_and_copies_of_heads_are_made_for_others() -> None:
    own, core = net("fsdp"), net("megatron-lm")
    assert "gated_norm" in own
    assert "gated_norm" not in core
    assert float(own["gated_norm"].forward) > float(core["scan_gates"].forward) / 2
    assert float(own["scan_gates"].forward) < float(core["scan_gates"].forward) / 3
    copies = 2 * 2 * 48 * 128
    assert float(core["scan"].saved) / TOKENS == float(own["scan"].saved) / TOKENS + copies - 8 * 48 * 128
