"""Launch files as they are written, to be read as a diff where they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.launchers import Card, launch_files, launchers, target
from planner.runtimes import runtimes
from tests.validate.megatron import cases

HERE = Path(__file__).parent
LLAMA = cases.job("llama3-70b", 64, seq_len=8192, global_batch=128, tokens=1e12)
LLAMA_PLAN = cases.plan(64, 128, tp=8.0, pp=4.0, vpp=5.0, schedule="interleaved-1f1b", sequence_parallel=True)
DEEPSEEK = cases.job("deepseek-v3", 1024, seq_len=4096, global_batch=8192, precision="fp8-block")
DEEPSEEK_PLAN = cases.plan(
    1024, 8192, pp=16.0, ep=64.0, vpp=2.0, schedule="interleaved-1f1b", recompute="selective:mlp+moe_act"
)
CARD = Card("model: llama3-70b\n", "step time 10.0 s", {"step time": "10.0 s", "peak memory": "60.0 GiB"})


@pytest.mark.parametrize(
    ("name", "runtime", "launcher"),
    [
        ("llama3-70b", "megatron-lm", "torchrun"),
        ("llama3-70b", "megatron-lm", "slurm"),
        ("llama3-70b", "megatron-lm", "kubernetes"),
        ("llama3-70b", "megatron-lm", "skypilot"),
        ("llama3-70b", "megatron-lm", "ray"),
        ("llama3-70b", "megatron-bridge", "slurm"),
        ("deepseek-v3", "megatron-lm", "torchrun"),
        ("deepseek-v3", "megatron-bridge", "torchrun"),
    ],
)
def test_files_are_as_reviewed(
    name: str, runtime: str, launcher: str, golden: Callable[[Path, str], None]
) -> None:
    job, plan = (LLAMA, LLAMA_PLAN) if name == "llama3-70b" else (DEEPSEEK, DEEPSEEK_PLAN)
    files = launch_files(plan, job, target(runtimes()[runtime], launchers()[launcher]), CARD)
    text = "".join(f"===== {file} =====\n{content}" for file, content in files.items())
    golden(HERE / f"{name}.{runtime}.{launcher}.txt", text)
