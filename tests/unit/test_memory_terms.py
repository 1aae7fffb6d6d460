"""Bytes of a stage, term by term, against hand arithmetic on a small model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.peaks import largest, moments_of, step_of
from planner.cost.memory.stage_memory import StageMemory, first_step_bytes
from planner.inputs.load import load_model
from planner.inputs.model import Experts
from planner.runtimes.family import Job
from planner.techniques.engines.family import PassBytes
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

# One layer of the dense model: query, key, value and output 2048 x (16 + 4) x 2 x 128, three matrices of
# 2048 x 8192, two norms. Embedding and head: 32,000 x 2048 each, and the last norm.
LAYER = 2048 * 20 * 2 * 128 + 3 * 2048 * 8192 + 2 * 2048
EMBEDDING = 32000 * 2048
TOTAL = 12 * LAYER + 2 * EMBEDDING + 2048


def priced(work: Job | None = None, traits: dict[str, Any] | None = None, **fields: Any) -> Estimate:
    work = work or job(gpus=8)
    return estimate(plan_of(work, **fields), work, runtime(**(traits or {})))


def test_the_model_is_what_the_arithmetic_below_takes() -> None:
    assert MODELS["dense"].params == TOTAL


def test_states_of_plain_data_parallelism() -> None:
    """Megatron-LM: 18 bytes for each parameter, of which the fp32 gradient is 4 (its README on ZeRO-1)."""
    stage = priced(zero=0).stages[0]
    assert (stage.weights, stage.gradients, stage.optimizer) == (2 * TOTAL, 4 * TOTAL, 12 * TOTAL)


@every("dp", [2, 8])
def test_states_of_the_distributed_optimizer(dp: int) -> None:
    """Megatron-LM: 6 + 12 / d bytes, d data-parallel ranks (docs on the distributed optimizer)."""
    stage = priced(job(gpus=dp), zero=1).stages[0]
    assert stage.weights + stage.gradients + stage.optimizer == pytest.approx(
        (6 + 12 / dp) * TOTAL, rel=1e-12
    )


def test_states_of_a_pipeline_by_stage() -> None:
    first, last = priced(zero=0, pp=2).stages
    assert first.weights == 2 * (6 * LAYER + EMBEDDING)
    assert last.weights == 2 * (6 * LAYER + EMBEDDING + 2048)


def test_workspaces_of_products_are_in_the_allocators_memory() -> None:
    """32 MiB each: three, and four more for the streams of grouped products (Transformer Engine, gemm.py)."""
    bare, held = (priced(traits={"product_workspaces": count}).stages[0] for count in (0.0, 3.0))
    assert held.workspace - bare.workspace == 3 * 2**25
    work = job(MODELS["experts"], gpus=8)
    bare, held = (priced(work, {"product_workspaces": count}, ep=8).stages[0] for count in (0.0, 3.0))
    assert held.workspace - bare.workspace == (3 + 4) * 2**25


def test_states_of_fp32_shards_that_are_their_own_master() -> None:
    traits = {"parameter_dtype": "fp32"}
    stage = priced(traits=traits, zero=3).stages[0]
    assert (stage.weights, stage.gradients, stage.optimizer) == (4 * TOTAL / 8, 4 * TOTAL / 8, 8 * TOTAL / 8)
    # While a layer's backward runs: that layer and the next one in 16 bit, a whole fp32 gradient, and the
    # 16-bit gradient of the 4,096 x 16,384 numbers that enter the activation.
    logits = priced(traits=traits | {"logit_bytes": 0.0}, zero=3, micro_batch=2).stages[0]
    assert logits.workspace == (2 + 2 + 4) * LAYER + 2 * 4096 * 16384
    assert logits.moment == "backward"


def test_the_gradient_of_a_sharded_head_may_be_the_worst_moment() -> None:
    """The head gathered, its 16-bit gradient, that once more in fp32 to be reduced, and a rank's eighth."""
    traits = {"parameter_dtype": "fp32", "logit_bytes": 0.0}
    stage = priced(traits=traits, zero=3).stages[0]
    head = EMBEDDING + 2048
    assert stage.moment == "loss"
    assert stage.workspace == 2 * head + (2 + 4 + 4 / 8) * head


def test_tensor_parallelism_divides_all_but_norms() -> None:
    stage = priced(zero=0, tp=4).stages[0]
    norms = 12 * 2 * 2048 + 2048
    assert stage.weights == 2 * ((TOTAL - norms) / 4 + norms)


def test_a_sharded_rank_keeps_the_rows_that_padding_gives_it() -> None:
    """Over 24 ranks: 2,048 rows are 86 to a rank, 8,192 are 342, 512 are 22, 32,000 are 1,334."""
    work = job(gpus=24, global_batch=24)
    stage = estimate(plan_of(work, zero=3, zero_shards=24, micro_batch=1), work, runtime("fsdp")).stages[0]
    layer = 2048 * (86 + 2 * 22 + 2 * 342) + (2048 + 8192) * 86 + 2 * 86
    assert stage.weights == 4 * (12 * layer + 2 * 2048 * 1334 + 86)
    assert stage.optimizer == 2 * stage.weights


def test_experts_are_spread_over_their_own_ranks() -> None:
    model = MODELS["experts"]
    work = job(model, 8)
    routed = 12 * 8 * 3 * 2048 * 2048
    held = {ep: priced(work, zero=1, ep=ep).stages[0] for ep in (1, 2, 8)}
    for ep, stage in held.items():
        assert stage.weights == 2 * (model.params - routed + routed / ep)
        assert stage.optimizer == pytest.approx(12 * model.params / 8, rel=1e-12)


def test_low_rank_adapters_freeze_the_rest() -> None:
    """Frozen 16-bit weights; gradients and states for rank times the widths of each linear layer of a block.

    The head has none (PEFT, ``all-linear``: "excluding the output layer").
    """
    stage = priced(job(gpus=1, method="lora", lora_rank=8), zero=0).stages[0]
    widths = (2048 + 3072) + (2048 + 2048) + (2048 + 16384) + (8192 + 2048)
    adapters = 8 * 12 * widths
    frozen = TOTAL - EMBEDDING - 25 * 2048
    assert stage.optimizer == 12 * adapters
    assert stage.gradients == 4 * adapters
    assert stage.weights == 2 * (frozen + EMBEDDING + 25 * 2048 + adapters)


def test_a_frozen_base_is_loaded_in_16_bits_whatever_its_adapters_are() -> None:
    """Adapters are their own master in fp32 where the runtime's weights are; 4.127 bits once quantised."""
    work, widths = job(gpus=1, method="lora", lora_rank=8), 5120 + 4096 + 18432 + 10240
    adapters = 8 * 12 * widths
    whole = priced(work, {"parameter_dtype": "fp32"}, zero=0).stages[0]
    assert whole.weights == 2 * TOTAL + 4 * adapters
    norms, head = 25 * 2048, 2048 * 32000
    quantised = priced(job(gpus=1, method="qlora", lora_rank=8), zero=0).stages[0]
    linear = TOTAL - EMBEDDING - norms - head
    assert quantised.weights == pytest.approx(
        4.127 / 8 * linear + 2 * (EMBEDDING + head + norms + adapters), rel=1e-9
    )


def test_scales_of_a_quantised_base_are_not_sharded() -> None:
    """bitsandbytes, ``Params4bit.quant_state``: an attribute beside the parameter that FSDP shards."""
    linear = TOTAL - EMBEDDING - 25 * 2048 - 2048 * 32000
    alone, shared = (
        priced(job(gpus=gpus, method="qlora", lora_rank=8), zero=3 * (gpus > 1)).stages[0].weights
        for gpus in (1, 8)
    )
    scales = 0.127 / 8 * linear
    assert shared == pytest.approx((alone - scales) / 8 + scales, rel=0.01)


def test_eight_bit_states_and_user_dtypes() -> None:
    small = priced(job(gpus=8, optimizer="adam8bit"), zero=0).stages[0]
    assert small.optimizer == pytest.approx((4 + 2 * (1 + 4 / 256)) * TOTAL)
    half = priced(job(gpus=8, state_dtype="bf16", gradient_dtype="bf16"), zero=1).stages[0]
    assert half.optimizer == pytest.approx((4 + 2) * TOTAL / 8)
    assert half.gradients == 2 * TOTAL


def test_an_offloaded_optimizer_leaves_the_device() -> None:
    assert priced(zero=1, offload="optimizer").stages[0].optimizer == 0


def test_the_logits_are_the_workspace_of_the_last_stage() -> None:
    """12 bytes a logit: 16 bit, logarithm and gradient in fp32, and its 16-bit copy; 2,048 tokens."""
    first, last = priced(zero=0, pp=2, tp=2, traits={"logit_bytes": 12.0}).stages
    assert last.workspace >= 12 * 2048 * 32000 / 2
    assert last.moment == "loss"
    assert first.workspace < last.workspace


def test_a_first_stage_holds_the_micro_batches_in_flight() -> None:
    """1F1B with four stages: four micro-batches on the first stage, one on the last (arXiv:2006.09503)."""
    stages = priced(job(gpus=8, global_batch=64), pp=4, zero=0).stages
    one = priced(job(gpus=2, global_batch=64), zero=0).stages[0].activations
    layers = [stage.activations for stage in stages]
    assert layers[1] / layers[2] == pytest.approx(3 / 2)
    assert layers[1] == pytest.approx(3 * (one - (one - 12 * layers[2] / 6)) / 4)


def test_layers_that_recompute_keep_their_input() -> None:
    kept = priced(zero=0, recompute="full").stages[0].activations
    none = priced(zero=0, recompute="none").stages[0].activations
    some = priced(zero=0, recompute="full:5").stages[0].activations
    assert none - some == pytest.approx((none - kept) * 5 / 12)


def test_fp8_adds_copies_of_weights_and_halves_saved_inputs() -> None:
    """A low-bit copy and its transpose beside the 16-bit weight: 2 more bytes, frozen or not."""
    plain, low = (priced(job(gpus=8, precision=name), zero=0).stages[0] for name in ("bf16", "fp8"))
    products = TOTAL - 2 * EMBEDDING - 25 * 2048
    assert low.weights - plain.weights == 2 * products, "of all but the head, which stays in 16 bit"
    assert low.activations < plain.activations


def test_low_bit_weights_rest_beside_alone_or_not_at_all() -> None:
    """Transformer Engine's primary fp8 weights: a byte, and one for the transpose, which Blackwell spares."""

    def weights(precision: str, rests: str, hardware: str = "dgx-h100") -> float:
        work = job(gpus=8, precision=precision, hardware=hardware)
        return priced(work, {"low_bit_weights": rests}, zero=0).stages[0].weights - 2 * (
            2 * EMBEDDING + norms
        )

    norms = 25 * 2048
    products = TOTAL - 2 * EMBEDDING - norms
    assert [weights("fp8", rests) / products for rests in ("beside", "alone", "passing")] == [4, 2, 2]
    assert weights("fp8", "alone", "dgx-b200") == 1 * products
    assert weights("fp8", "beside", "dgx-b200") == 3 * products
    assert weights("mxfp8", "alone", "dgx-b200") == 2 * (1 + 1 / 32) * products
    assert weights("fp8-block", "alone") == 4 * products
    assert weights("bf16", "alone") == 2 * products


def test_a_frozen_base_has_low_bit_copies_too() -> None:
    """Adapters train in 16 bit; the products with the base are in fp8, so its weights have copies as well."""

    def weights(rests: str, precision: str = "fp8") -> float:
        work = job(gpus=1, precision=precision, method="lora", lora_rank=8)
        return priced(work, {"low_bit_weights": rests}, zero=0).stages[0].weights

    products = TOTAL - 2 * EMBEDDING - 25 * 2048
    assert weights("beside") - weights("beside", "bf16") == 2 * products
    assert weights("alone") == weights("passing") == weights("beside", "bf16")


def test_gradients_may_be_there_in_two_dtypes() -> None:
    """DeepSpeed's BF16_Optimizer sums in fp32 beside the 16-bit gradients: 2 + 4 + 2 bytes for a weight."""
    stage = priced(zero=0, traits={"gradient_copy_bytes": 2.0}).stages[0]
    assert stage.gradients == (4 + 2) * TOTAL


def test_a_norm_of_several_kernels_keeps_copies() -> None:
    """Two norms a layer and the last one, 2 sequences of 2,048 tokens, 2,048 wide.

    A fused norm of an fp32 copy keeps that in its 16-bit input's place (counted of OLMo's layers).
    """
    unfused = {"fused_norm": False}
    fused, plain, wide, cast = (
        priced(zero=0, micro_batch=2, traits=traits).stages[0].activations
        for traits in ({}, unfused, {**unfused, "norms": "fp32-weighed"}, {"norms": "fp32-read"})
    )
    elements = 25 * 2 * 2048 * 2048
    assert (plain - fused, wide - fused, cast - fused) == (4 * elements, 6 * elements, 2 * elements)


def test_a_step_in_flat_buffers_may_be_the_worst_moment() -> None:
    """An fp32 copy of all gradients of a rank: 4 bytes for each weight that it steps, no activation then."""
    traits = {"step_bytes": 4.0, "logit_bytes": 0.0, "reserve_share": 0.1}
    work = job(gpus=1, global_batch=1)
    stage = priced(work, traits, zero=1, recompute="full").stages[0]
    assert (stage.moment, stage.activations, stage.workspace) == ("optimizer", 0, 4 * TOTAL)
    assert stage.reserve == 0
    many = priced(job(gpus=8), traits, zero=1, micro_batch=4).stages[0]
    assert many.moment == "backward"
    assert many.workspace < 4 * TOTAL / 8 < 1.1 * (many.activations + many.workspace)


@every(("states", "each"), [("fp16", 8.0), ("fp8", 8.0), ("bf16", 0.0), (None, 0.0)])
def test_reduced_states_are_copied_to_fp32_before_they_are_stepped(states: str | None, each: float) -> None:
    """Transformer Engine's FusedAdam: both moments of a group as fp32 at once, unless they are in bf16."""
    work = job(gpus=1, global_batch=1)
    own = dataclasses.replace(work, workload=work.workload.model_copy(update={"state_dtype": states}))
    traits = {"logit_bytes": 0.0, "optimizer_step": "megatron-core", "gradient_dtype": "fp32"}
    stage = priced(own, traits, zero=1, recompute="full").stages[0]
    resting = stage.weights + stage.gradients + stage.optimizer
    assert dict(stage.moments).get("the optimizer's step", resting) == resting + each * TOTAL


def test_the_embedding_s_gradient_may_be_the_worst_moment() -> None:
    """FSDP2, eight tensor ranks, four shards, one micro-batch: a layer of 100 weights and a table of 100.

    The table is there in 16 bit (200), its gradient whole on each rank (8 x 200); then either its part in
    fp32 (400), or in 16 bit (200) beside the layer's fp32 gradient (400), less the table's own fp32 shard,
    100 bytes, which is yet to come: 500. All gradient shards together are 200.
    """
    work = job(gpus=32, global_batch=4)
    plan = plan_of(work, tp=8, zero=3)
    case = case_of(plan, work, runtime(engine="fsdp2", tensor_library="dtensor"))
    assert (plan.zero_shards, plan.num_microbatches, case.gradient_bytes, case.reduce_bytes) == (4, 1, 4, 4)
    passes = PassBytes(
        activations=0.0, rebuilt=0.0, loss=0.0, largest_layer=100.0, gathered_layer=200.0, gathered_head=0.0,
        gathered_embedding=200.0, head=0.0, one_layer=0.0,
    )  # fmt: skip
    peak = largest(moments_of(case, step_of(case, plan, passes, gradients=200.0, gathered=0.0)))
    assert float(peak.workspace) + float(peak.gradients or 0.0) == 200 + 8 * 200 + 500 + 200


def test_weights_that_are_live_while_a_layer_runs_backward() -> None:
    """DeepSpeed's ZeRO-3: weights that may be live and half a product, its gradient, a bucket that rests.

    A gradient that is larger than the bucket waits for the next one.
    """
    traits = {
        "logit_bytes": 0.0,
        "reduce_dtype": "bf16",
        "gradient_dtype": "bf16",
        "engine": "deepspeed-zero",
    }
    product, widest = 2 * 2048 * 8192, 2 * 8 * 2048 * 16384

    def workspace(**more: float | str) -> float:
        return priced(job(global_batch=128), traits | more, zero=3, micro_batch=8).stages[0].workspace

    live, one = {"live_elements": 1e8}, product / 2 + 1e8 + product
    assert workspace(**live, bucket_elements=1e6) == 2 * (one + product + 1e6) + widest
    assert workspace(**live, bucket_elements=4e7) == 2 * (one + 4e7) + widest
    apart = workspace(live_elements=1e8, bucket_elements=4e7, adapters="peft")
    assert apart == 2 * (product / 4 + 1e8 + product / 2 + 4e7) + widest
    assert workspace(live_elements=1e9, bucket_elements=4e7) == 2 * (TOTAL + product + 4e7) + widest


def test_a_rank_of_sharded_weights_steps_group_by_group() -> None:
    """DeepSpeed's ZeRO-3: the 16-bit gradients of a group end to end, and then in fp32."""
    traits = {
        "engine": "deepspeed-zero",
        "step_bytes": 4.0,
        "gradient_dtype": "bf16",
        "optimizer_step": "in-place",
    }
    size, stage = "llama3-8b", []
    for gpus in (2, 16):
        work = dataclasses.replace(job(gpus=gpus, global_batch=16), model=load_model(size))
        plan = plan_of(work, zero=3, recompute="full")
        moments = estimate(plan, work, runtime(**traits, live_elements=1e6)).stages[0].moments
        stage.append(dict(moments)["the optimizer's step"])
    params = load_model(size).params
    assert stage == [pytest.approx(16 * params / 2 + 6 * 1e9), pytest.approx((16 + 6) * params / 16)]


def test_flat_buckets_wait_for_backward_where_the_optimizer_is_sharded() -> None:
    """DeepSpeed's ZeRO-1 and -2 with overlap: two buffers of the bucket's size, however small the model."""
    traits = {"bucket_elements": 5e8, "reduce_dtype": "bf16"}
    with_them, without = (
        {
            zero: priced(traits=traits | {"flat_buckets": buckets}, zero=zero).stages[0].workspace
            for zero in (0, 1, 2)
        }
        for buckets in (2.0, 0.0)
    )
    assert [with_them[zero] - without[zero] for zero in (0, 1, 2)] == [0, 2 * 5e8 * 2, 2 * 5e8 * 2]


def test_attention_that_does_not_run_again_keeps_its_output() -> None:
    """DistFlashAttention recomputes all but attention (arXiv:2310.03294, sec. 3.3): output and statistics."""
    again, kept = (
        priced(
            traits={"checkpointing": "around-layers" if plain else "reentrant"},
            zero=0,
            recompute="full",
            cp=2,
            cp_method="lightseq",
        )
        .stages[0]
        .activations
        for plain in (True, False)
    )
    assert kept - again == 12 * (2 * 1024 * 2048 + 4 * 16 * 1024)


def test_freed_gradients_may_keep_their_memory() -> None:
    """Gradients that are freed after a step are slack at the loss of the next: 4 bytes over the shards."""
    traits = {"parameter_dtype": "fp32", "reserve_share": 0.0}
    freed, kept = (
        priced(traits=traits | {"engine": engine}, zero=3, micro_batch=4).stages[0]
        for engine in ("fsdp2", "torchtitan-fsdp2")
    )
    assert (freed.moment, freed.gradients, freed.reserve) == ("loss", 0, 0)
    assert kept.reserve == 4 * TOTAL / 8


def test_interleaving_holds_a_little_more_than_1f1b() -> None:
    """arXiv:2104.04473, sec. 2.2, and arXiv:2205.05198, sec. 4.2.3: (v + 1) p - 1 chunks at first."""
    work = job(gpus=4, global_batch=32)
    plain = priced(work, pp=4, zero=0).stages[1].activations
    rank = priced(work, pp=4, vpp=3, zero=0, schedule="interleaved-1f1b").stages[1].activations
    # Rank 1 of four: 2 (4 - 1 - 1) + (3 - 1) 4 + 1 = 13 chunks of a layer, against three slices of three.
    assert rank / plain == pytest.approx(13 / 9)


def test_experts_follow_the_shards_of_a_hybrid_mesh() -> None:
    """Four replicas of four shards: a rank holds four times what it would as one of sixteen shards.

    A torchtitan mesh has efsdp = fsdp · tp / ep beside dp_replicate; Megatron-core divides the ranks that
    hold an expert by ``num_distributed_optimizer_instances``.
    """
    work = job(MODELS["experts"], 16)
    whole = priced(work, zero=1, ep=2).stages[0].optimizer
    parts = priced(work, zero=1, ep=2, zero_shards=4.0).stages[0].optimizer
    assert parts == pytest.approx(4 * whole, rel=1e-12)
    three = priced(work, zero=3, zero_shards=4.0).stages[0]
    assert three.weights == pytest.approx(2 * work.model.params / 4, rel=1e-12)


@every(("gpus", "filled"), [(4, 4), (16, 8), (6, 4)])
def test_stacked_experts_are_cut_by_whole_experts(gpus: int, filled: int) -> None:
    """PyTorch chunks dimension 0, here 8 experts: of 16 shards 8 are empty, of 6 four hold two each."""
    work = job(MODELS["experts"], gpus, global_batch=48)
    cut, stacked = (
        priced(work, {"experts": code, "engine": "fsdp2"}, zero=3).stages[0].weights
        for code in ("grouped", "stacked")
    )
    blocks = work.model.blocks
    held = sum(
        3 * block.ffn.experts * work.model.hidden * block.ffn.inner
        for block in (blocks[name] for name in work.model.layers)
        if isinstance(block.ffn, Experts)
    )
    assert stacked - cut == pytest.approx(2 * held * (1 / filled - 1 / gpus), rel=1e-9)


def step_workspace(work: Job | None = None, recompute: str = "full", **traits: Any) -> float:
    """Bytes that are there beside the states in the optimizer's step of a rank that steps all weights."""
    work = work or job(gpus=1, global_batch=1)
    known = {"gradient_dtype": "bf16", "reduce_dtype": "bf16", "logit_bytes": 0.0}
    stage = priced(work, known | traits, zero=1, recompute=recompute).stages[0]
    return stage.workspace if stage.moment == "optimizer" else 0.0


def test_a_step_of_megatron_core_copies_gradients_that_are_not_fp32() -> None:
    """``shard_main_param.grad = shard_model_grad.float()``: 4 bytes for a weight, none where it is fp32."""
    assert step_workspace(optimizer_step="megatron-core") == 4 * TOTAL
    assert step_workspace(optimizer_step="in-place") == 0
    assert step_workspace(optimizer_step="megatron-core", precision_aware=True) == 0
    assert step_workspace(optimizer_step="megatron-core", gradient_dtype="fp32", reduce_dtype="fp32") == 0


def test_a_step_casts_weights_that_rest_in_fp8_by_way_of_16_bit() -> None:
    """A list of all master weights in the model's dtype, 2 bytes each, beside the gradients' 4.

    The precision-aware optimizer does not change it: it takes gradients of 16-bit weights alone.
    """
    work = job(gpus=1, global_batch=1, precision="fp8")
    for aware in (True, False):
        both = {"optimizer_step": "megatron-core", "precision_aware": aware}
        assert step_workspace(work, low_bit_weights="alone", **both) == 6 * TOTAL
        assert step_workspace(work, low_bit_weights="beside", **both) == 4 * TOTAL


def test_half_of_a_master_weight_is_the_bf16_weight_itself() -> None:
    """Transformer Engine's ``store_param_remainders``: 2 bytes beside 8 of moments, in place of 4."""

    def states(work: Job, zero: int = 1, **traits: Any) -> float:
        return priced(work, traits, zero=zero).stages[0].optimizer

    work = job(gpus=2, global_batch=2)
    assert states(work, precision_aware=True) * 12 == states(work) * 10
    assert states(work, zero=3, precision_aware=True) == states(work, zero=3)
    low = job(gpus=2, global_batch=2, precision="fp8")
    assert states(low, precision_aware=True) == states(low)
    short = job(gpus=2, global_batch=2, state_dtype="bf16")
    assert states(short) * 12 == states(work) * 6


def test_an_optimizer_of_other_dtypes_takes_gradients_as_they_are() -> None:
    """``use_precision_aware_optimizer``: ``decoupled_grad`` is the buffer itself."""
    work = job(gpus=1, global_batch=1, state_dtype="bf16")
    assert step_workspace(work, optimizer_step="megatron-core") == 0


def test_masters_stay_whole_where_bridge_leaves_the_recipe_of_low_bits_as_it_is() -> None:
    """``use_precision_aware_optimizer_no_fp8_or_ds_fp8`` with ``tensorwise``: 4 + 2 + 2 bytes, and copies.

    So it is with every such recipe of low bits: DeepSeek-V3's moments are bf16, its masters fp32.
    """
    kept = {"optimizer_step": "megatron-core", "precision_aware": True, "whole_masters": True}
    work = job(gpus=1, global_batch=1)
    assert step_workspace(work, **kept) == 4 * TOTAL
    short = job(gpus=1, global_batch=1, state_dtype="bf16")
    assert step_workspace(short, **kept) == 4 * TOTAL

    def states(work: Job, **traits: Any) -> float:
        return priced(work, traits, zero=1).stages[0].optimizer

    assert states(work, **kept) == states(work)
    assert states(short, **kept) == pytest.approx(states(work) * 8 / 12, rel=1e-9)
    low = job(gpus=1, global_batch=1, precision="fp8", state_dtype="bf16")
    assert step_workspace(low, optimizer_step="megatron-core") == 4 * TOTAL
    delayed = job(gpus=1, global_batch=1, precision="fp8-delayed", state_dtype="bf16")
    assert step_workspace(delayed, optimizer_step="megatron-core") == 0


def test_the_first_step_has_no_moments_before_its_end() -> None:
    """Hand arithmetic for 10 weights of 2 + 2 + 12 bytes, 8 of them moments: passes of 100 or 40 bytes."""
    work = job(gpus=1, global_batch=1)
    traits = runtime(optimizer_step="megatron-core", gradient_dtype="bf16", reduce_dtype="bf16")
    case = case_of(plan_of(work, zero=1), work, traits)

    def first(passing: float) -> float:
        return float(first_step_bytes(case, StageMemory(20.0, 20.0, 120.0, passing, 0.0, np.False_)))

    assert first(200.0) == 20 + 20 + 40 + 200
    assert first(40.0) == 20 + 20 + 120 + 4 * 10
    assert first(120.0) == 20 + 20 + 120 + 4 * 10 == 20 + 20 + 40 + 120


def test_a_pipeline_planned_before_the_job_has_room_for_twice_its_depth() -> None:
    """OneFlow's buffers: 2 p micro-batches on all stages but the last, where 1F1B holds p - i on stage i."""
    work = job(gpus=8, global_batch=32)
    usual, planned = (
        [stage.activations for stage in priced(work, traits, zero=0, pp=4).stages]
        for traits in ({}, {"pipeline_slots": 2.0})
    )
    one = usual[1] - usual[2]
    assert [after - before for before, after in zip(usual, planned, strict=True)] == [
        4 * one,
        5 * one,
        6 * one,
        0,
    ]
