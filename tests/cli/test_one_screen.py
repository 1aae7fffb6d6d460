"""Answers of unlike jobs are on one screen: about 20 lines, at most 24, none wider than the terminal."""

from __future__ import annotations

import re

import pytest

from tests.cli.command import once

H100 = ("--hardware", "dgx-h100")
MOE = ("qwen3-30b-a3b", *H100, "--gpus", "16", "--global-batch", "64")
SEARCHES = {
    "dense": (
        "llama3-70b",
        *H100,
        "--gpus",
        "64",
        "--seq-len",
        "8192",
        "--tp",
        "4",
        "--cp",
        "1",
        "--zero",
        "1",
    ),
    "experts": (*MOE, "--tp", "1", "--zero", "1"),
    "long sequences": (
        *("llama3.1-8b", *H100, "--gpus", "16", "--seq-len", "128K", "--global-batch", "16"),
        *("--pp", "1", "--micro-batch", "1"),
    ),
    "nothing fits": ("llama3-70b", *H100, "--gpus", "4", "--global-batch", "64"),
    "lora": ("llama3-8b", "--method", "lora", "--hardware", "rtx4090"),
    "clusters": (
        *("llama3-8b", *H100, "--hardware", "mi300x-8", "--hardware", "dgx-a100-80gb", "--gpus", "8,16"),
        *("--objective", "cost", "--tokens", "1T", "--pp", "1", "--cp", "1", "--micro-batch", "1"),
    ),
    "runtimes": (
        *("llama3-8b", *H100, "--gpus", "8", "--runtime", "megatron-lm", "--runtime", "fsdp"),
        *(
            "--runtime",
            "deepspeed",
            "--runtime",
            "torchtitan",
            "--pp",
            "1",
            "--cp",
            "1",
            "--micro-batch",
            "1",
        ),
    ),
    "clusters and runtimes": (
        *("llama3-8b", "--hardware", "mi300x-8", "--hardware", "a3-megagpu-8g", "--hardware", "p5.48xlarge"),
        *("--gpus", "16", "--runtime", "megatron-lm", "--runtime", "fsdp", "--pp", "1", "--cp", "1"),
        *("--micro-batch", "1"),
    ),
    "images": ("qwen2.5-vl-7b", "--hardware", "8xh100", "--pp", "1", "--cp", "1"),
    "goodput": (
        *("llama3-8b", *H100, "--gpus", "512", "--objective", "goodput", "--storage", "40GB/s"),
        *("--pp", "1", "--cp", "1", "--tp", "1"),
    ),
}
ESTIMATES = {
    "dense": ("llama2-7b", *H100, "--gpus", "8", "--tp", "2", "--tokens", "1T"),
    "does not fit": (
        "llama3-8b",
        *H100,
        "--gpus",
        "8",
        "--seq-len",
        "8192",
        "--tp",
        "2",
        "--micro-batch",
        "4",
    ),
    "experts": (*MOE, "--tp", "2", "--ep", "8", "--sequence-parallel"),
    "stages": ("llama3-70b", *H100, "--gpus", "64", "--tp", "8", "--pp", "8", "--recompute", "full"),
    "lora": ("llama3-8b", "--method", "lora", "--hardware", "rtx4090", "--runtime", "fsdp"),
    "lengths": (
        "llama3-8b",
        *H100,
        "--gpus",
        "8",
        "--seq-lens",
        "lognormal:mean=2Ki,max=8Ki,seed=1",
        "--tp",
        "2",
    ),
}
JOBS = [("search", *ask) for ask in SEARCHES.values()] + [("estimate", *ask) for ask in ESTIMATES.values()]
NAMES = [f"search {name}" for name in SEARCHES] + [f"estimate {name}" for name in ESTIMATES]


@pytest.mark.parametrize("ask", JOBS, ids=NAMES)
def test_an_answer_is_on_one_screen(ask: tuple[str, ...]) -> None:
    done = once(*ask)
    assert done.code in {0, 1}, done.err
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(words in done.out for words in ("Error band", "No plan fits", "goodput"))
    numbers = [int(line.split()[0]) for line in lines if re.match(r"\d+ {2,}\S", line)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_most_searches_leave_room_for_the_prompt() -> None:
    sizes = sorted(once("search", *ask).out.count("\n") for ask in SEARCHES.values())
    assert sizes[len(sizes) // 2] <= 22
