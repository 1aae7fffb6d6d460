"""What optimizers keep and move, and the arithmetic of Muon, against what their authors print."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.traffic.whole_matrices import exchanged_share
from planner.formulas.low_rank_step import dion_exchanged, dion_kept
from planner.formulas.newton_schulz import newton_schulz_flops
from planner.formulas.shampoo import shampoo_kept, shampoo_side
from planner.runtimes.family import Runtime
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.optimizers.family import step_traffic
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import MODELS, any_runtime, cluster, job, plan_of


@every(("name", "moments", "with_master"), [("adamw", 8, 12), ("sgd", 4, 8), ("muon", 4, 8), ("lion", 4, 8)])
def test_bytes_kept_for_each_parameter(name: str, moments: int, with_master: int) -> None:
    assert OPTIMIZERS[name].kept_bytes() == with_master
    assert OPTIMIZERS[name].kept_bytes(master_bytes=0.0) == moments


def test_eight_bit_moments_are_a_quarter_of_fp32_and_a_scale_for_each_block() -> None:
    """arXiv:2110.02861, sec. 2.1 and 2.2: one byte, and an fp32 maximum for each block: of 256 in torchao."""
    moments = OPTIMIZERS["adam8bit"].kept_bytes(master_bytes=0.0)
    blocks, size = 1000, 256
    assert moments * blocks * size == 2 * (blocks * size + blocks * 4)
    assert moments / OPTIMIZERS["adamw"].kept_bytes(master_bytes=0.0) == pytest.approx(0.25, rel=0.016)


def test_bitsandbytes_keeps_moments_of_embeddings_in_fp32() -> None:
    """Trainer of transformers 5.24, trainer.py: 32 bits for each nn.Embedding, which the head is not."""
    plain, wide = (
        asked(name, any_runtime(engine="fsdp2"), gpus=8, zero=3).stages[0].optimizer
        for name in ("adam8bit", "adam8bit-bnb")
    )
    table = MODELS["dense"].embedding_params / 8
    assert wide - plain == pytest.approx(2 * (4.0 - (1 + 4 / 256)) * table)


def test_dtypes_that_the_user_names() -> None:
    """DeepSeek-V3 keeps both moments in bf16 beside an fp32 master (arXiv:2412.19437, sec. 3.3.3)."""
    assert OPTIMIZERS["adamw"].kept_bytes(state_bytes=2.0) == 8
    assert OPTIMIZERS["adamw"].kept_bytes(state_bytes=2.0, master_bytes=2.0) == 6


def test_a_step_reads_and_writes_the_states_once() -> None:
    # Reads master, two moments and gradient; writes master, two moments, and the 16-bit weight.
    read, written = 4 + 4 + 4 + 4, 4 + 4 + 4 + 2
    assert step_traffic(12.0, 4.0, 2.0, reads_weight=False) == read + written


def test_a_weight_that_is_its_own_master_is_read_too() -> None:
    # Reads weight, two moments and gradient; writes weight and two moments, as PyTorch's fused Adam.
    assert step_traffic(8.0, 4.0, 4.0, reads_weight=True) == 4 * 4 + 3 * 4


def products_flops(small: int, large: int) -> int:
    """Count the products of one iteration: A = X X', A A, and (b A + c A A) X; two FLOPs a multiply-add."""
    return 2 * small * small * large + 2 * small**3 + 2 * small * small * large


@every("shape", [(512, 512), (512, 2048), (2048, 512), (512, 40_000)])
def test_newton_schulz_is_five_times_its_products(shape: tuple[int, int]) -> None:
    assert newton_schulz_flops(*map(float, shape)) == 5 * products_flops(min(shape), max(shape))


@every(("hidden", "tokens", "printed"), [(768, 524_288, 0.007), (16_384, 16_000_000, 0.005)])
def test_the_overhead_of_muon(hidden: int, tokens: int, printed: float) -> None:
    """K. Jordan, https://kellerjordan.github.io/posts/muon/: 0.7% for a GPT of 768, 0.5% for Llama 405B."""
    share = newton_schulz_flops(float(hidden), float(hidden)) / (6 * tokens * hidden**2)
    assert share == pytest.approx(printed, abs=0.0005)


MOONLIGHT = any_runtime(reduce_dtype="fp32", whole_matrices="gathered")
OWNED = any_runtime(whole_matrices="owned")


def asked(optimizer: str, runtime: Runtime, name: str = "dense", gpus: int = 16, **fields: Any) -> Estimate:
    work = job(MODELS[name], gpus, optimizer=optimizer)
    return estimate(plan_of(work, **({"zero": 1} | fields)), work, runtime)


def test_ranks_that_gather_send_what_moonlight_counts() -> None:
    """arXiv:2502.16982, sec. 2.3: 4 bytes of gradient, 4 of weight, and 2 more: (1, 1.25] times AdamW's.

    Weights travel in 16 bit here, so that the bound is (4 + 2 + 2) / (4 + 2); embedding and head add nothing.
    """
    adam, muon = (asked(name, MOONLIGHT).sent.dp for name in ("adamw", "muon"))
    model = MODELS["dense"]
    matrices = model.params - 2 * model.vocab * model.hidden
    assert muon - adam == pytest.approx(15 / 16 * 2 * matrices, rel=1e-3)
    assert 1 + (muon - adam) / (15 / 16 * 8 * model.params) <= 1.25
    assert 1 < muon / adam < 8 / 6


def test_owners_of_whole_matrices_send_no_more_among_replicas() -> None:
    """Megatron-core's layer-wise optimizer reduces and gathers what AdamW's does; 16 ranks pack evenly."""
    adam, muon = (asked(name, OWNED) for name in ("adamw", "muon"))
    assert muon.sent.dp == pytest.approx(adam.sent.dp, rel=0.01)
    assert muon.step > adam.step


@every("runtime", [MOONLIGHT, OWNED])
def test_tensor_ranks_gather_the_momentum_of_what_they_step(runtime: Runtime) -> None:
    """``newton_schulz_tp`` gathers fp32 parts of the matrices of 12 layers: 4 ranks, an 8th of them each."""
    adam, muon = (asked(name, runtime, gpus=32, tp=4) for name in ("adamw", "muon"))
    model = MODELS["dense"]
    matrices = model.params - 2 * model.vocab * model.hidden
    assert muon.sent.tp - adam.sent.tp == pytest.approx(3 / 4 * 4 * matrices / 8, rel=1e-3)


def test_no_rank_steps_less_than_one_matrix() -> None:
    """Gate and up of 8,192 x 2,048 twice are one matrix: on 512 ranks of 72 matrices its owner decides."""
    largest = newton_schulz_flops(2 * 8192.0, 2048.0)
    wide, plain = (asked(name, OWNED, gpus=32, pp=1) for name in ("muon", "adamw"))
    rate = wide.job.hardware.pool.accelerator.kernels.gemm["bf16"].rate
    assert wide.time.optimizer - plain.time.optimizer >= largest / rate - 1e-4


def test_buffers_of_owners_are_as_long_as_the_largest_matrix_makes_them() -> None:
    """128 parts of 2 x 8,192 x 2,048 elements each, in bf16, where 12 layers have 0.73 x 10^9."""
    work = job(MODELS["dense"], 128, optimizer="muon", global_batch=128)
    stage = estimate(plan_of(work, zero=1), work, OWNED).stages[0]
    ends = 2 * work.model.vocab * work.model.hidden
    norms = work.model.params - ends - 12 * MATRICES
    assert stage.weights == pytest.approx(2 * (128 * 2 * 8192 * 2048 + ends), rel=1e-3)
    assert norms < 1e5
    dealt = estimate(plan_of(work, zero=1), work, any_runtime(whole_matrices="dealt")).stages[0]
    assert dealt.weights == pytest.approx(2 * work.model.params, rel=1e-3)


MATRICES = 2048 * (16 + 4 + 4) * 128 + 16 * 128 * 2048 + 3 * 8192 * 2048
"""Elements of a layer's products. [element]"""


def test_embedding_and_head_keep_two_moments() -> None:
    """Muon's authors leave them to AdamW: 12 bytes with master, against 8 of a matrix."""
    stage = asked("muon", OWNED, zero=0).stages[0]
    model = MODELS["dense"]
    ends = 2 * model.vocab * model.hidden
    assert stage.optimizer == pytest.approx(8 * model.params + 4 * ends, rel=1e-6)


def test_experts_are_orthogonalised_one_by_one() -> None:
    """12 layers of 8 experts on 8 ranks: gate and up together, and down; SGD moves the same bytes."""
    fields = {"zero": 0, "gpus": 8, "ep": 8}
    muon, plain = (asked(name, OWNED, "experts", **fields).time.optimizer for name in ("muon", "sgd"))
    each = newton_schulz_flops(4096.0, 2048.0) + newton_schulz_flops(2048.0, 2048.0)
    shared = each + newton_schulz_flops(8.0, 2048.0)
    mixer = 2 * newton_schulz_flops(2048.0, 2048.0) + 2 * newton_schulz_flops(512.0, 2048.0)
    rate = cluster("dgx-h100").pool.accelerator.kernels.gemm["bf16"].rate
    assert muon - plain == pytest.approx(12 * (each + shared + mixer) / rate, rel=0.02)


def priced_by(optimizer: str, gpus: int = 16, **fields: Any) -> Estimate:
    return asked(optimizer, OWNED, gpus=gpus, **fields)


@every("shape", [(4096.0, 4096.0), (4096.0, 11008.0)])
def test_replicas_of_dion_exchange_two_factors(shape: tuple[float, float]) -> None:
    """arXiv:2504.05295: (m + n) r elements in the place of m n; the rank is a quarter of the smaller side."""
    rows, columns = shape
    assert dion_exchanged(rows, columns) == (rows + columns) * rows / 4
    assert dion_kept(rows, columns) == columns * rows / 4


def test_dion_sends_less_and_keeps_less_than_adamw() -> None:
    adam, dion = (priced_by(name, zero=0) for name in ("adamw", "dion"))
    share = exchanged_share(case_of(dion.plan, dion.job, dion.runtime))
    assert 0.25 < share < 0.5
    assert float(dion.sent.dp) == pytest.approx(share * float(adam.sent.dp), rel=1e-6)
    assert float(dion.stages[0].optimizer) < float(adam.stages[0].optimizer)


def test_factors_of_shampoo_are_four_times_the_parameters() -> None:
    """Blocks of 8,192 (max_preconditioner_dim) of a matrix of 8,192 x 32,768: four times its size."""
    rows, columns = 8192.0, 4 * 8192.0
    assert shampoo_kept(rows, columns) == 4 * rows * columns
    assert shampoo_side(4 * 8192.0) == 8192.0


def test_shampoo_slows_a_step_by_a_tenth_at_most_where_replicas_share_it() -> None:
    """arXiv:2309.06497, abstract: at most 10% slower than diagonal methods, with a batch for the hardware."""
    batch = {"zero": 1, "micro_batch": 4, "num_microbatches": 16.0}
    adam, shampoo = (
        estimate(plan_of(work, **batch), work, OWNED)
        for work in (
            job(MODELS["dense"], 16, optimizer=name, global_batch=1024) for name in ("adamw", "shampoo")
        )
    )
    assert adam.step < shampoo.step < 1.1 * adam.step
    kept = shampoo.stages[0].optimizer - adam.stages[0].optimizer
    assert kept > adam.stages[0].optimizer


def test_no_runner_has_them_and_says_so() -> None:
    job_words = (
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "8",
        "--seq-len",
        "4096",
        "--global-batch",
        "8",
    )
    for name in ("dion", "shampoo"):
        done = planner(
            "estimate", *job_words, "--optimizer", name, "--runtime", "torchtitan", "--format", "json"
        )
        assert done.code == 1
        assert "optimizer-offered" in {fault["rule"] for fault in done.json["violations"]}
        assert done.json["step_time_s"] > 0
