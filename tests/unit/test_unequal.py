"""Unequal lengths: packing, who waits for whom, ranks by length; equal lengths gain nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner import api
from planner.cost.estimate import Estimate
from planner.cost.step.uneven_steps import UnevenSteps
from planner.errors import InputError
from planner.formulas.unequal import sequence_ranks
from planner.inputs.lengths import best_fit_packs, lengths_of, packed, read_lengths
from planner.inputs.workload import Workload
from planner.report.unequal import lengths_record
from tests.cases import every
from tests.cli.command import planner

LONG_TAIL = "lognormal:mean=8192,max=65536,seed=1"


def priced(lengths: str | None, model: str = "llama3-8b", runtime: str = "fsdp", **axes: Any) -> Estimate:
    work = Workload(seq_len=65536, global_batch=128, seq_lens=lengths)
    job = api.Job(api.load_model(model), api.load_hardware("dgx-h100"), 32, work)
    return api.estimate_plan(job, runtime, **({"recompute": "full"} | axes))


def table(folder: Path, lengths: list[int]) -> str:
    path = folder / "lengths.csv"
    path.write_text("length\n" + "".join(f"{length}\n" for length in lengths))
    return read_lengths(str(path))


def test_equal_lengths_gain_nothing(tmp_path: Path) -> None:
    """The property of the whole family: packing, balance, waiting and groups by length change nothing."""
    equal = table(tmp_path, [65536] * 40)
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("fsdp", {"zero": 3}),
        ("megatron-lm", {"cp": 2, "tp": 2}),
    )
    for runtime, axes in cases:
        plain, same = (priced(lengths, runtime=runtime, **axes) for lengths in (None, equal))
        steps = UnevenSteps(same)
        assert same.step == pytest.approx(plain.step, rel=1e-12)
        assert same.tokens_per_second == pytest.approx(plain.tokens_per_second, rel=1e-12)
        assert same.mfu == pytest.approx(plain.mfu, rel=1e-12)
        assert steps.one_sided_gain == pytest.approx(0.0, abs=1e-12)
        assert steps.imbalance(steps.arrived) == steps.imbalance(steps.balanced) == pytest.approx(1.0)
        assert steps.by_length.step == pytest.approx(same.step, rel=1e-12)
        assert steps.spread == pytest.approx(0.0, abs=1e-12)


def test_equal_short_documents_cost_what_a_document_mask_does(tmp_path: Path) -> None:
    short = priced(table(tmp_path, [4096] * 160))
    work = Workload(seq_len=65536, global_batch=128, document_tokens=4096)
    job = api.Job(api.load_model("llama3-8b"), api.load_hardware("dgx-h100"), 32, work)
    masked = api.estimate_plan(job, "fsdp", recompute="full")
    assert short.step == pytest.approx(masked.step, rel=1e-12)
    assert short.model_flops == pytest.approx(masked.model_flops, rel=1e-12)


def test_waiting_once_a_step_gains_what_odc_printed() -> None:
    """ODC (arXiv:2601.19362): up to 36%, less with larger mini-batches, more with devices."""
    sharded = priced(LONG_TAIL, zero=3)
    gain = UnevenSteps(sharded).one_sided_gain
    assert 0.05 < gain <= 0.36
    job = sharded.job
    gains = []
    for batch in (128, 512):
        work = job.workload.model_copy(update={"global_batch": batch})
        whole = api.Job(job.model, job.hardware, job.gpus, work)
        answer = api.estimate_plan(whole, "fsdp", recompute="full", zero=3)
        record = lengths_record(answer)["lengths"]
        gains.append(record["maximum_of_sums_s"] / record["even_step_s"])
    assert gains[1] < gains[0]


def test_the_price_is_what_drawn_steps_take_in_the_mean() -> None:
    """The expectation in closed form, which a search ranks by, against 64 drawn steps."""
    for runtime, zero, each_pass in (("fsdp", 3, True), ("megatron-lm", 1, False)):
        answer = priced(LONG_TAIL, runtime=runtime, zero=zero)
        steps = UnevenSteps(answer)
        drawn = float(steps.seconds(steps.arrived, each_pass).mean())
        assert steps.each_pass is each_pass
        assert answer.step == pytest.approx(drawn, rel=0.04)


def test_balance_never_costs_and_the_sum_of_maxima_is_the_larger() -> None:
    for lengths in (LONG_TAIL, "lognormal:mean=2048,max=65536,seed=3,sigma=1.6"):
        steps = UnevenSteps(priced(lengths, zero=3))
        record = lengths_record(steps.answer)["lengths"]
        assert record["sum_of_maxima_s"] >= record["maximum_of_sums_s"] >= record["even_step_s"]
        assert record["balanced_step_s"] <= record["sum_of_maxima_s"]
        assert sum(one["tokens"] for one in record["classes"]) == pytest.approx(1.0)


def test_experts_wait_in_each_pass_and_are_refused_groups_by_length() -> None:
    answer = priced(LONG_TAIL, "mixtral-8x7b", "megatron-lm", ep=8, zero=1)
    steps = UnevenSteps(answer)
    assert steps.each_pass
    assert any(reason.startswith("experts") for reason in steps.dynamic_limits())
    plain = UnevenSteps(priced(LONG_TAIL, runtime="megatron-lm", zero=1, cp=2))
    assert not list(plain.dynamic_limits())


def test_best_fit_keeps_every_token_and_no_sequence_overflows() -> None:
    lengths = np.random.default_rng(5).integers(1, 9000, 3000)
    tokens, squares = best_fit_packs(lengths, 8192)
    assert tokens.sum() == lengths.sum()
    assert tokens.max() <= 8192
    assert (squares <= tokens**2).all()
    assert packed("lognormal:mean=2048,max=8192,seed=1", 8192).filled > 0.99


def test_ranks_of_a_sequence_follow_bytescale() -> None:
    """arXiv:2502.21231, sec. 5.1; two of the layers stay on the device whatever is offloaded."""
    assert float(sequence_ranks(2097152.0, 8192.0, 32.0)) == 256.0  # their baseline pads all to this degree
    assert float(sequence_ranks(2097152.0, 8192.0, 32.0, 0.5)) == 256.0 * (1.0 - 0.5 * 30.0 / 32.0)
    assert float(sequence_ranks(100.0, 8192.0, 32.0)) == 1.0


@every(
    ("text", "words"),
    [
        ("nowhere.csv", "column `length`"),
        ("lognormal:mean=8Ki", "max"),
        ("lognormal:mean=8Ki,max=4Ki", "at most the max"),
        ("lognormal:mean=8Ki,max=16Ki,sede=1", "seed"),
    ],
)
def test_wrong_lengths_are_told(text: str, words: str) -> None:
    with pytest.raises(InputError) as told:
        read_lengths(text)
    assert words in str(told.value)


def test_wrong_tables_are_told_with_their_lines(tmp_path: Path) -> None:
    for content, words in (
        ("size\n3\n", "column `length`"),
        ("length\n3\nx\n-4\n", "line 3"),
        ("length\n", "no rows"),
    ):
        path = tmp_path / "wrong.csv"
        path.write_text(content)
        with pytest.raises(InputError) as told:
            read_lengths(str(path))
        assert words in str(told.value)


def test_a_law_has_the_mean_that_it_says() -> None:
    drawn = lengths_of("lognormal:mean=8192,max=131072,seed=1")
    assert drawn.mean() == pytest.approx(8192, rel=0.01)
    assert drawn.max() <= 131072


def test_the_short_answer_says_what_waits_cost_and_calls_them_no_bubble() -> None:
    words = "llama3-8b --hardware dgx-h100 --gpus 16 --global-batch 16 --cp 8 --recompute full --seq-lens"
    job = ("estimate", *words.split())
    told = planner(*job, "lognormal:mean=8Ki,max=128Ki,seed=1").out
    assert "Waits cost" in told
    assert "waiting for the busiest rank" in told
    assert "bubble" not in told
    alike = planner(*job, "lognormal:mean=128Ki,max=128Ki,seed=1").out
    assert "Waits cost" not in alike
