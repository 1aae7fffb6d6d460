"""StreamBP (arXiv:2506.03077): backward in parts of a sequence against the tables of its paper.

Both tables were run by scripts of its repository (github.com/Ledzy/StreamBP, ``scripts``): transformers' own
models, whose attention has a mask as a tensor and so computes the whole square of scores, whose loss is not
fused, and the head in parts of 100 tokens with StreamBP.
"""

from __future__ import annotations

import math
from functools import partial

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner

GIB = 2.0**30
CARD = 79.6
"""Memory of an A800, which is an A100's. [GiB]"""
HF = runtimes()["fsdp"].with_traits(logit_bytes=12.0, attention_code="repeated")
"""Logits, their fp32 copy, its logarithms of softmax and the gradient in 16 bit; heads repeat for a mask."""
HEAD = 100.0
"""Tokens of a part of the head."""
PART = 3000
"""Tokens of a part of a layer: ``--chunk_size`` where nobody says another, in its scripts."""

TABLE_1 = {
    6: (2.5, 2.6), 9: (4.7, 4.7), 12: (7.4, 7.0), 15: (10.8, 10.0), 18: (14.7, 13.2), 21: (19.3, 17.2),
    24: (24.3, 21.2),
}  # fmt: skip
"""Thousands of tokens; seconds of Qwen3-4B with checkpoints, and with StreamBP."""

TABLE_3 = {
    "qwen3-4b": ("full", 28.5, 200.0), "qwen3-8b": ("full", 15.7, 72.0), "qwen3-14b": ("lora", 23.0, 84.6),
    "qwen3-32b": ("lora", 5.9, 16.3),
}  # fmt: skip
"""Method; longest sequences that train, in thousands of tokens, with checkpoints and with StreamBP."""


def priced(
    model: ModelSpec, tokens: int, recompute: str, head: float = HEAD, method: str = "full"
) -> Estimate:
    """Price a step of one sequence on one accelerator, the head in parts of so many tokens if not whole."""
    whole = method == "full"
    work = Workload(
        seq_len=tokens, global_batch=1, method=method, lora_rank=32, state_dtype="bf16",
        master_dtype="bf16" if whole else None, gradient_dtype="bf16" if whole else None,
    )  # fmt: skip
    plain = HF.with_traits(**({"parameter_dtype": "bf16"} if whole else {"adapter_dropout": True}))
    runtime = plain.with_traits(loss="tiled", loss_chunks=tokens / head) if head else plain
    return estimate(Plan(recompute=recompute), Job(model, load_hardware("dgx-a100-80gb"), 1, work), runtime)


def seeing_all(model: ModelSpec) -> ModelSpec:
    """Return a model whose attention computes all scores, as one with a mask in place of a kernel does."""
    blocks = {
        name: block.model_copy(update={"mixer": block.mixer.model_copy(update={"causal": False})})
        for name, block in model.blocks.items()
        if block.mixer is not None
    }
    return model.model_copy(update={"blocks": blocks})


@every("thousands", TABLE_1)
def test_time_over_that_of_checkpoints_is_what_table_1_prints(thousands: int) -> None:
    """1.04 at 6 K tokens to 0.87 at 24 K, all within 4%: longer at 6 K, the same at 9 K, then shorter."""
    model, tokens = load_model("qwen3-4b"), 1000 * thousands
    checkpoints, stream = TABLE_1[thousands]
    found = priced(model, tokens, "stream:3").step / priced(seeing_all(model), tokens, "full", 0).step
    assert found == pytest.approx(stream / checkpoints, rel=0.04)
    assert (found > 1.02, found < 0.98) == (thousands < 9, thousands > 9)


def test_nothing_is_gained_in_time_beside_a_causal_kernel() -> None:
    model = load_model("qwen3-4b")
    assert priced(model, 24_000, "stream:3").step > 1.15 * priced(model, 24_000, "full", 0).step


def longest(model: ModelSpec, recompute: str, head: float, method: str) -> float:
    """Return the longest sequence that fits the card, in thousands of tokens."""
    peak, low, high = partial(priced, model, head=head, method=method), 1.0, 400.0
    while high - low > 0.01 * low:
        middle = (low + high) / 2
        parts = math.ceil(1000 * middle / PART)
        choice = f"stream:{max(2, parts)}" if recompute == "stream" else recompute
        fits = peak(int(1000 * middle), choice).peak / GIB < CARD
        low, high = (middle, high) if fits else (low, middle)
    return low


@pytest.mark.parametrize("name", TABLE_3)
def test_the_longest_sequences_are_those_of_table_3(name: str) -> None:
    """Checkpoints within 6%; StreamBP 6 to 10% longer than printed.

    Neither optimizer nor dtypes are printed: AdamW in bf16 throughout, weights, gradients and moments. Its
    trainers are TRL's (https://github.com/Ledzy/StreamBP, README.md); adapters there drop a twentieth.
    """
    method, checkpoints, stream = TABLE_3[name]
    model = load_model(name)
    assert longest(model, "full", 0, method) == pytest.approx(checkpoints, rel=0.06)
    assert 1.0 < longest(model, "stream", HEAD, method) / stream < 1.1


def test_a_loss_in_parts_leaves_less_to_gain() -> None:
    """Of 7 times the length of plain checkpoints, about 5 are the logits'."""
    model = load_model("qwen3-4b")
    plain, fused = longest(model, "full", 0, "full"), longest(model, "full", HEAD, "full")
    stream = longest(model, "stream", HEAD, "full")
    assert stream / plain > 6
    assert stream / fused < 2


def test_more_parts_need_less_until_what_is_whole_is_left() -> None:
    model = load_model("qwen3-4b")
    needs = [priced(model, 65_536, f"stream:{parts}").peak for parts in (2, 4, 8, 64, 512)]
    assert needs == sorted(needs, reverse=True)
    assert needs[-2] - needs[-1] < 0.1 * (needs[0] - needs[-1])


def test_it_is_priced_by_name_and_no_runner_has_it() -> None:
    job = ("llama3-8b", "--hardware", "dgx-a100-80gb", "--gpus", "8", "--zero", "1", "--seq-len", "8Ki")
    done = planner("estimate", *job, "--recompute", "streambp", "--format", "json")
    assert done.code == 1
    assert done.json["plan"]["recompute"] == "stream"
    assert "parts-have-a-runner" in {fault["rule"] for fault in done.json["violations"]}
    assert planner("estimate", *job, "--recompute", "stream:1").code == 2


@every(("name", "cp", "rule"), [("qwen3-8b", 2, "parts-on-one-rank"), ("gemma3-27b", 1, "parts-are-causal")])
def test_shared_sequences_and_windows_are_refused(name: str, cp: int, rule: str) -> None:
    job = Job(load_model(name), load_hardware("dgx-a100-80gb"), cp, Workload(seq_len=8192, global_batch=1))
    faults = estimate(Plan(recompute="stream", cp=float(cp)), job, HF).violations
    assert rule in {fault.rule for fault in faults}
