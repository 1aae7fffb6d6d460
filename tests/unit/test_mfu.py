"""MFU and HFU of a measured step against counts by hand and printed figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load import load_model
from planner.report.mfu import MeasuredStep, conventions, doubts, explanations, mfu_document
from tests.cases import every
from tests.unit.cost_jobs import GPT, MODELS, job, plan_of, runtime


def answer_of(**plan: object) -> Estimate:
    asked = job()
    return estimate(plan_of(asked, **plan), asked, runtime())


def flops(answer: Estimate) -> dict[str, float]:
    return {row.name: row.flops for row in conventions(answer)}


def test_conventions_counted_by_hand_for_a_gpt_of_four_layers() -> None:
    asked = job(GPT, gpus=8, global_batch=8)
    found = flops(estimate(plan_of(asked, recompute="full"), asked, runtime()))
    tokens, hidden, seq, layers, vocab = 8 * 2048, 2048, 2048, 4, 32000
    products = layers * 12 * hidden * hidden + vocab * hidden
    assert found["MFU"] == pytest.approx(6 * tokens * (products + layers * hidden * seq))
    everything = products + vocab * hidden
    assert found["6ND"] == pytest.approx(6 * tokens * everything, rel=2e-3)
    assert found["PaLM's MFU"] - found["6ND"] == pytest.approx(12 * tokens * layers * hidden * seq)
    again = 2 * tokens * layers * (12 * hidden * hidden + hidden * seq)
    assert found["HFU"] - found["MFU"] == pytest.approx(again)


def test_the_printed_mfu_of_llama_3_405b() -> None:
    """Llama 3 405B, 16,384 H100: 400 TFLOP/s, MFU 41% (arXiv:2407.21783, table 4, sequence 8,192)."""
    asked = replace(
        job(load_model("llama3.1-405b"), gpus=16384, seq_len=8192, global_batch=2048),
    )
    answer = estimate(plan_of(asked, tp=8, pp=16, sequence_parallel=True), asked, runtime())
    count = flops(answer)["MFU"]
    measured = MeasuredStep(answer, count / 400e12 / 16384)
    assert measured.share(count) == pytest.approx(0.41, abs=0.01)


def test_a_step_at_the_estimate_has_the_estimates_mfu_and_no_gap() -> None:
    answer = answer_of(tp=2, recompute="full")
    document = mfu_document(MeasuredStep(answer, answer.step))
    assert document["mfu"] == pytest.approx(answer.mfu)
    assert document["hfu"] == pytest.approx(answer.hfu)
    assert document["hfu"] > document["mfu"]
    assert document["gap_s"] == 0
    assert document["tokens_per_s_per_gpu"] == pytest.approx(answer.tokens_per_second)


def test_a_part_taken_as_many_times_as_said_closes_the_gap() -> None:
    answer = answer_of(tp=4, zero=1)
    measured = MeasuredStep(answer, 1.3 * answer.step)
    for row in explanations(measured):
        if row.factor is not None:
            stretched = answer.step + (row.factor - 1) * row.part.seconds
            assert stretched == pytest.approx(measured.seconds)
    assert any(row.factor is None for row in explanations(measured))


def test_hidden_communication_explains_no_more_than_the_gap() -> None:
    asked = job()
    answer = estimate(plan_of(asked, zero=3), asked, runtime(dp_exposed=0.0))
    hidden = {row.part.name: row.part.hidden for row in explanations(MeasuredStep(answer, answer.step))}[
        "dp_comm"
    ]
    assert hidden > 0
    for gap, share in ((2 * hidden, 0.5), (0.5 * hidden, 1.0), (-hidden, 0.0)):
        rows = {row.part.name: row for row in explanations(MeasuredStep(answer, answer.step + gap))}
        assert rows["dp_comm"].hidden_share == pytest.approx(share)


@every(("times", "words"), [(0.1, "above 100%"), (0.7, "far faster"), (1.5, ""), (0.95, "")])
def test_what_cannot_be_is_doubted(times: float, words: str) -> None:
    answer = replace(answer_of(), error_band=None)
    told = " ".join(doubts(MeasuredStep(answer, times * answer.step)))
    assert words in told
    assert bool(words) == bool(told)


def test_a_gap_within_the_band_needs_no_explaining() -> None:
    answer = replace(answer_of(), error_band=0.1)
    assert "error band" in " ".join(doubts(MeasuredStep(answer, 1.05 * answer.step)))
    assert not list(doubts(MeasuredStep(answer, 1.2 * answer.step)))


def test_experts_count_what_a_token_meets() -> None:
    asked = job(MODELS["experts"])
    found = flops(estimate(plan_of(asked), asked, runtime()))
    assert found["6ND"] == 6 * 32 * 2048 * MODELS["experts"].active_params
