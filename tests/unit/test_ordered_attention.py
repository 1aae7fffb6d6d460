"""The backward of FlashAttention-2 with sums in one order: against measured kernels, by hand, and laws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.cost.case import Case, case_of
from planner.cost.layer.attention_core import CoreSize, attention_seconds, ordered_backward_seconds
from planner.runtimes.imports.dispatch import read_runner_file
from planner.techniques.attention import ATTENTION_KERNELS
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime
from tests.unit.test_from_file_sums import MEGATRON


def case(cluster: str, **traits: object) -> Case:
    work = job(MODELS["dense"], 8, cluster, global_batch=8)
    return case_of(plan_of(work, dp=8), work, runtime(attention="flash-2", **traits))


def core(cluster: str, rows: float, seq: float, head_dim: float, causal: bool, exact: bool) -> list[float]:
    """TFLOP/s of both passes."""
    visible = seq / 2 if causal else seq
    kernel, size = ATTENTION_KERNELS["flash-2"], CoreSize(rows, seq, 1.0, visible, head_dim)
    found = attention_seconds(case(cluster, deterministic=exact), kernel, size)
    flops = 4.0 * rows * seq * visible * head_dim / 1e12
    return [flops / float(found[0]), 2.5 * flops / float(found[1])]


def test_an_h100_with_sums_in_one_order() -> None:
    """Dao-AILab/flash-attention#1893: two sequences of 8,192, 16 heads of 128, causal, deterministic."""
    forward, backward = core("dgx-h100", 32.0, 8192.0, 128.0, causal=True, exact=True)
    assert forward == pytest.approx(306.2, rel=0.1)
    assert backward == pytest.approx(166.0, rel=0.1)
    assert core("dgx-h100", 32.0, 8192.0, 128.0, causal=True, exact=False)[1] > 1.6 * backward


@every(("rows", "seq", "printed"), [(128.0, 4096.0, 353.9), (128.0, 8192.0, 361.6)])
def test_a_b200_at_heads_of_128(rows: float, seq: float, printed: float) -> None:
    """meta-pytorch/tritonbench#171: eight sequences, 16 heads, forward, not causal."""
    forward = core("dgx-b200", rows, seq, 128.0, causal=False, exact=True)[0]
    assert forward == pytest.approx(printed, rel=0.15)


def test_parts_rounds_and_buffers_by_hand() -> None:
    known = case("dgx-h100")
    width = known.kernels.memory_bandwidth
    # 32 heads in 5 parts are 160 blocks: two rounds on 132 multiprocessors
    assert ordered_backward_seconds(known, 1.0, 32.0, 0.0, 8192.0, 128.0) == pytest.approx(264 / 160)
    # as many heads as multiprocessors: one part, one round, one buffer
    assert ordered_backward_seconds(known, 1.0, 132.0, 8192.0, 8192.0, 128.0) == pytest.approx(1.0)
    # a sequence of one block of keys is not split, however few heads there are
    assert ordered_backward_seconds(known, 1.0, 4.0, 128.0, 128.0, 128.0) == pytest.approx(1.0)
    cleared = ordered_backward_seconds(known, 0.0, 32.0, 8192.0, 8192.0, 128.0)
    assert cleared == pytest.approx(8 * 4 * 32 * 8192 * 128 / width)


def test_a_machine_without_known_multiprocessors_keeps_its_time() -> None:
    known = case("dgx-h100")
    pool = known.pool
    accelerator = pool.accelerator.model_copy(update={"multiprocessors": None})
    hardware = known.job.hardware.model_copy(
        update={"pools": (pool.model_copy(update={"accelerator": accelerator}),)}
    )
    other = case_of(plan_of(known.job, dp=8), replace(known.job, hardware=hardware), known.runtime)
    assert ordered_backward_seconds(other, 1.0, 32.0, 8192.0, 8192.0, 128.0) == 1.0


def test_never_faster_than_sums_in_any_order() -> None:
    known = case("dgx-b200")
    for rows in range(1, 400):
        assert ordered_backward_seconds(known, 1.0, float(rows), 64.0, 2048.0, 128.0) >= 1.0


def test_a_megatron_script_that_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{MEGATRON} --deterministic-mode\n")
    found = read_runner_file(path)
    assert {"deterministic=true", "attention=flash-2"} <= set(found.changes)
    path.write_text(f"{MEGATRON}\n")
    assert "deterministic=true" not in read_runner_file(path).changes
