"""Low-rank adapters beside a frozen base: bytes kept, weights at rest, kernels, and what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepare
from planner.calibrate.runs.table import Run
from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.flops import step_flops
from planner.cost.layer.attention_core import mean_keys
from planner.cost.layer.block_cost import layer_cost, priced_layer
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.step.layout import NOTHING_AGAIN
from planner.inputs.load import load_model
from planner.inputs.model import Attention
from planner.units import GIB
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

SEQ, HIDDEN, INNER, WIDTH = 8192, 8192, 28672, 8192 + 2 * 1024
"""Llama 2 70B in MLPerf: tokens, width, inner width, and width of queries, keys and values."""


def kept(name: str = "megatron-bridge", precision: str = "fp8", method: str = "lora", **traits: Any) -> float:
    """Bytes a token that a layer of Llama 2 70B keeps, adapters of rank 16 on attention alone."""
    targets = ("qkv", "proj") if method != "full" else ()
    work = job(
        load_model("llama2-70b"), 8, "dgx-b200", seq_len=SEQ, global_batch=8, precision=precision,
        method=method, lora_rank=16, lora_targets=targets,
    )  # fmt: skip
    plan = plan_of(work, zero=3 if name == "fsdp" else 1)
    price = Pricer(case_of(plan, work, runtime(name, **traits)), plan)
    layer = priced_layer(price, next(iter(work.model.blocks)))
    return float(layer_cost(layer, NOTHING_AGAIN, price).held) / SEQ


def test_a_frozen_layer_keeps_no_input_that_only_a_weight_gradient_reads() -> None:
    """Residual, norm's results in fp8, queries, keys, values, attention's output, SwiGLU's input, adapters.

    Beside them four bytes of statistics a norm, four a head of attention, and two adapters' bottlenecks.
    """
    small = 2 * 4 + 4 * 64 + 2 * 2 * 16
    plain = 2 * 2 * HIDDEN + 2 * HIDDEN + 2 * HIDDEN + 2 * WIDTH + 2 * HIDDEN + 2 * 2 * INNER
    assert kept() == pytest.approx(plain + small)
    assert kept(fp8_activation_input=True) == pytest.approx(plain - 2 * INNER + small)
    assert kept(fp8_activation_input=True) == pytest.approx(160e3, rel=0.005), "as the recipe was counted"
    full = kept(method="full") - (2 * 4 + 4 * 64)
    assert full - plain == pytest.approx(INNER - 2 * HIDDEN), "SwiGLU's result, but no adapter's copy"


def test_in_sixteen_bits_an_adapter_reads_what_the_norm_keeps() -> None:
    assert kept(precision="bf16") - kept() == pytest.approx((2 * 2 - 2 - 2) * HIDDEN)


def test_plain_linear_layers_keep_the_input_of_adapters_alone() -> None:
    """PyTorch saves no input of a frozen product: norms' results go, but for the one that adapters read."""
    fused = {"fused_norm": True, "attention_code": "plain", "rotary_chain": "scripted", "fused_rope": True}
    plain = kept("fsdp", "bf16", **fused, fused_activation=True)
    assert plain == pytest.approx(kept(precision="bf16") - 2 * HIDDEN + 2 * 2 * 16)


def test_adapters_stand_beside_each_layer_that_the_runtime_has() -> None:
    """Transformers has three linear layers for queries, keys and values, and two for gate and up."""

    def trained(name: str) -> float:
        work = job(gpus=1, method="lora", lora_rank=8)
        plan = plan_of(work, zero=0)
        layer = priced_layer(Pricer(case_of(plan, work, runtime(name)), plan), "a")
        return sum(float(op.trained) for op in layer.operators)

    merged = (2048 + 3072) + (2048 + 2048) + (2048 + 16384) + (8192 + 2048)
    assert trained("megatron-bridge") == 8 * merged
    assert trained("fsdp") == 8 * (merged + 3 * 2048)


def test_a_feed_forward_without_a_gate_has_one_first_layer() -> None:
    """OPT's six linear layers, as PEFT finds them in ``facebook/opt-125m``."""
    work = job(load_model("opt-125m"), 1, seq_len=2048, global_batch=1, method="lora", lora_rank=8)
    plan = plan_of(work, zero=0)
    layer = priced_layer(Pricer(case_of(plan, work, runtime("fsdp")), plan), next(iter(work.model.blocks)))
    assert sum(float(op.trained) for op in layer.operators) == 8 * (4 * (768 + 768) + 2 * (768 + 3072))


def weights(hardware: str, **traits: Any) -> float:
    work = job(gpus=8, hardware=hardware, precision="fp8", method="lora")
    answer = estimate(plan_of(work, zero=1), work, runtime("megatron-bridge", **traits))
    return answer.stages[0].weights


def test_frozen_fp8_weights_take_a_byte_without_their_transposes() -> None:
    products = 12 * (2048 * 20 * 2 * 128 + 3 * 2048 * 8192)
    alone, one = (
        weights("dgx-h100", low_bit_weights="alone", cached_transposes=cached) for cached in (True, False)
    )
    assert alone - one == products
    assert weights("dgx-b200", low_bit_weights="alone") == one, "Blackwell needs no transposes"


def test_transposes_that_are_not_kept_are_made_for_each_data_gradient() -> None:
    def step(cached: bool) -> float:
        work = job(gpus=8, hardware="dgx-h100", precision="fp8", method="lora")
        traits = {"low_bit_weights": "alone", "cached_transposes": cached}
        return estimate(plan_of(work, zero=1), work, runtime("megatron-bridge", **traits)).step

    assert step(True) < step(False)


@every("window", [None, 7, 40])
def test_documents_hide_keys_from_each_other(window: int | None) -> None:
    """By enumeration: a query sees what came before it in its document, within its window."""
    seq, document = 96, 24
    queries, keys = np.meshgrid(np.arange(seq), np.arange(seq), indexing="ij")
    seen = (keys <= queries) & (keys // document == queries // document)
    if window:
        seen &= queries - keys < window
    exact = seen.sum() / seq
    assert float(mean_keys(seq, window, False, document)) == pytest.approx(exact, abs=0.6)


def test_packed_documents_make_attention_alone_cheaper() -> None:
    def step(**work: Any) -> Estimate:
        todo = job(load_model("llama2-7b"), 8, seq_len=8192, global_batch=8, **work)
        return estimate(plan_of(todo, zero=1), todo, runtime())

    whole, packed, same = step(), step(document_tokens=256), step(document_tokens=8192)
    assert packed.step < whole.step == same.step
    assert packed.peak == whole.peak
    assert packed.model_flops < whole.model_flops


def test_model_flops_of_a_frozen_model_leave_weight_gradients_out() -> None:
    """Two of three products of each weight, and attention in full."""
    model = load_model("llama2-70b")
    products = 80 * (HIDDEN * WIDTH + HIDDEN * HIDDEN + 3 * HIDDEN * INNER) + 32000 * HIDDEN
    attention = 80 * 6 * 2 * HIDDEN * 4096 / 2
    assert step_flops(model, 4096, 1.0) == pytest.approx(6 * products + attention)
    assert step_flops(model, 4096, 1.0, frozen=True) == pytest.approx(4 * products + attention)


@every("gpus", ["dgx-h100", "dgx-b200"])
def test_lora_reaches_no_higher_share_of_the_peak_than_full_training(gpus: str) -> None:
    def mfu(method: str) -> float:
        work = job(load_model("llama2-7b"), 8, gpus, seq_len=4096, global_batch=32, method=method)
        return estimate(plan_of(work, zero=1), work, runtime("megatron-bridge")).mfu

    assert mfu("lora") <= 1.02 * mfu("full")


def test_a_known_scale_spares_reads_and_the_cast_after_a_norm() -> None:
    """Delayed scaling casts what a norm made in the norm, unless an adapter reads it in 16 bit too."""

    def forward(precision: str, name: str, **work: Any) -> float:
        todo = job(gpus=8, precision=precision, **work)
        plan = plan_of(todo)
        layer = priced_layer(Pricer(case_of(plan, todo, runtime("megatron-bridge")), plan), "a")
        return next(float(op.forward) for op in layer.operators if op.name == name)

    def saved(name: str, **work: Any) -> float:
        return forward("fp8", name, **work) - forward("fp8-delayed", name, **work)

    lora = {"method": "lora", "lora_targets": ("proj",)}
    assert saved("qkv") > saved("attention_out") > 0
    assert saved("qkv", **lora) > saved("qkv", **(lora | {"lora_targets": ("qkv",)})) > 0


LLAMA = {
    "model": "Llama 2 70B", "num_layers": 80, "hidden": HIDDEN, "ffn_hidden": INNER, "gated_mlp": 1,
    "heads": 64, "kv_heads": 8, "head_dim": 128, "vocab": 32000, "seq_len": SEQ, "micro_batch": 1,
    "global_batch": 8, "precision": "fp8-delayed", "recompute": "none", "pp": 1, "dp": 8,
}  # fmt: skip
B200 = Run(
    line=2, id="r", source="mlperf-training", gpu="b200-180gb", gpus_per_node=8, num_gpus=8, tp=1, cp=1,
    framework="NeMo 25.04", step_time_s=1.514, peak_mem_gib=168.827,
    notes="task=lora lora_rank=16 lora_targets=linear_qkv+linear_proj; attention over the whole sequence "
    "(return_cu_seqlen False); FP8 attention, FP8 activation input store",
    **LLAMA,
)  # fmt: skip
"""MLPerf Training v5.0, Llama 2 70B LoRA, eight B200 of one node: its own log."""


def ready(run: Run) -> PricedRun:
    found = prepare(run, shipped_catalogue())
    assert isinstance(found, PricedRun), found
    return found


def device_gib(run: Run) -> tuple[float, float]:
    """GiB of the device, and the probability that they are too many."""
    found = cost_predictions([ready(run)])[0]
    assert isinstance(found, Prediction)
    return found.allocated_gib + found.reserve_gib + found.framework_gib, found.oom_probability


def test_the_tuned_run_on_b200_fits_as_measured() -> None:
    total, risk = device_gib(B200)
    assert risk < 0.5
    assert total == pytest.approx(168.827, rel=0.03)
    stored = 80 * 2 * INNER * SEQ / GIB
    plain, _ = device_gib(B200.with_values({"notes": B200.notes.replace(", FP8 activation input store", "")}))
    assert plain - total == pytest.approx(1.05 * stored, rel=0.02), "and the allocator's reserve"


def test_columns_and_notes_say_alike_what_is_fine_tuned() -> None:
    noted = ready(B200).job.workload
    columns = {"method": "lora", "lora_rank": 16, "lora_targets": "linear_qkv+o_proj", "document_tokens": SEQ}
    stated = ready(B200.with_values({"notes": "FP8 attention", **columns})).job.workload
    assert noted == stated
    assert (noted.lora_rank, noted.lora_targets, noted.document_tokens) == (16, ("qkv", "proj"), None)
    assert ready(B200.with_values({"document_tokens": 512})).job.workload.document_tokens == 512


def test_what_a_fine_tuning_row_leaves_blank_is_told() -> None:
    blank = ready(B200.with_values({"notes": "task=lora"}))
    assert blank.job.workload.document_tokens == 256
    assert blank.job.workload.lora_targets == ("qkv",)
    assert blank.defaults["document_tokens"] == 256
    assert blank.defaults["lora_targets"] == "linear_qkv"
    full = ready(B200.with_values({"notes": "task=sft", "step_time_s": 3.0}))
    assert (full.task, full.job.workload.method, full.job.workload.document_tokens) == ("sft", "full", 256)
    assert "lora_targets" not in full.defaults


def test_windows_stay_where_documents_are_longer() -> None:
    sliding = MODELS["sliding"]
    mixers = [block.mixer for block in sliding.blocks.values() if isinstance(block.mixer, Attention)]
    long = job(sliding, 8, seq_len=2048, document_tokens=1024)
    whole = replace(long, workload=long.workload.model_copy(update={"document_tokens": None}))
    assert any(mixer.window for mixer in mixers)
    steps = [estimate(plan_of(todo), todo, runtime()).step for todo in (long, whole)]
    assert steps[0] < steps[1]


def test_embedding_and_head_beside_adapters_are_a_trained_copy() -> None:
    """PEFT's ``modules_to_save``: beside frozen weights come a weight, a gradient and two moments.

    They have 16 bits where nothing is sharded, and fp32 where FSDP shards what learns.
    """
    model = load_model("llama2-7b")

    def priced(*targets: str, gpus: int = 1, zero: int = 0, **traits: Any) -> Estimate:
        work = job(
            model, gpus, "dgx-h100", seq_len=4096, global_batch=4, precision="bf16", method="lora",
            lora_rank=16, lora_targets=targets,
        )  # fmt: skip
        return estimate(plan_of(work, zero=zero), work, runtime("fsdp", **traits))

    def states(one: Estimate) -> float:
        return one.stages[0].weights + one.stages[0].gradients + one.stages[0].optimizer

    plain, more = priced("qkv"), priced("qkv", "ends")
    ends = 2 * model.vocab * model.hidden
    assert (more.peak - plain.peak) == pytest.approx(ends * (2 + 2 + 2 * 2), rel=0.01)
    cast = priced("qkv", "ends", adapters="llama-factory")
    assert (cast.peak - plain.peak) == pytest.approx(ends * (4 + 4 + 2 * 4), rel=0.01)
    shared = [priced("qkv", *ends_too, gpus=2, zero=3) for ends_too in ((), ("ends",))]
    assert states(shared[1]) - states(shared[0]) == pytest.approx(ends / 2 * (4 + 4 + 2 * 4), rel=0.01)
    head = 2 * 4 * 4096 * model.vocab * model.hidden
    assert more.model_flops - plain.model_flops == pytest.approx(head)
    assert more.step > plain.step


@every(("method", "more"), [("lora", 1.0), ("qlora", 0.0)])
def test_a_base_that_is_loaded_in_fp32_rests_so(method: str, more: float) -> None:
    """Two bytes more of each weight; of a base in 4 bits of embedding, head and norms alone."""
    model = load_model("llama2-7b")
    work = job(model, 1, "dgx-h100", seq_len=2048, global_batch=1, precision="bf16", method=method)
    plan = plan_of(work, zero=0)
    short, long = (
        estimate(plan, work, runtime("fsdp", base_dtype=kind)).stages[0].weights for kind in ("bf16", "fp32")
    )
    ends = 2 * model.vocab * model.hidden
    assert long - short == pytest.approx(2 * (ends + more * (model.params - ends)), rel=0.01)


def test_an_input_that_rests_in_fp8_is_cast_by_kernels_of_its_own() -> None:
    """Both halves, read in 16 bit and written in fp8, and back: 6 bytes an element of the inner width."""

    def priced(stored: bool) -> tuple[Pricer, Operator]:
        work = job(load_model("llama2-70b"), 8, "dgx-b200", seq_len=SEQ, global_batch=8, precision="fp8")
        plan = plan_of(work)
        pricer = Pricer(case_of(plan, work, runtime("megatron-bridge", fp8_activation_input=stored)), plan)
        layer = priced_layer(pricer, next(iter(work.model.blocks)))
        return pricer, next(one for one in layer.operators if one.name == "mlp_activation")

    (pricer, stored), (_, plain) = priced(True), priced(False)
    copied = 6 * SEQ * INNER / pricer.case.kernels.stream_for("copy").bandwidth
    assert stored.forward - plain.forward == pytest.approx(copied, rel=0.05)
    assert stored.backward - plain.backward == pytest.approx(copied, rel=0.05)
