"""A run that is slow, or dies: logs as their programs print them, and causes found where they were put."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.run_logs import read_run_log
from planner.units import GIB, MIB
from tests.cases import every
from tests.cli.command import planner

JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "128", "--quiet")
PLAN = ("--tp", "2", "--sequence-parallel")

MEGATRON = (
    " iteration        {step}/     500 | consumed samples:          128 | elapsed time per iteration (ms): "
    "{speed} | throughput per GPU (TFLOP/s/GPU): 401.2 | global batch size:   128 | lm loss: 1.0E+01 |\n"
    "[Rank 0] (after {step} iterations) memory (MB) | allocated: 20100.25 | max allocated: 40960.00 "
    "| reserved: 45000.00 | max reserved: 51200.00\n"
)
TITAN = (
    "\x1b[31mstep: {step:2}  \x1b[32mloss: 12.2  \x1b[36mmemory: 47.18GiB(59.2%)  "
    "\x1b[34mtps: {speed:,}  tflops: 1.0  mfu: 1%\x1b[0m\n"
)
DEEPSPEED = (
    "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, "
    "RunningAvgSamplesPerSec=58.7, CurrSamplesPerSec={speed}, MemAllocated=6.01GB, MaxMemAllocated=19.5GB\n"
)
NANOTRON = (
    "iteration: {step} / 100 | consumed_tokens: 1.05M | time_per_iteration_ms: {speed}K "
    "| tokens_per_sec: 12.3K\n"
    " Memory usage: 1234.56MiB. Peak allocated 2000.00MiB. Peak reserved: 3000.00MiB\n"
)
NEMO = (
    "Training epoch 0, iteration {step}/249 | lr: 1.961e-06 | global_batch_size: 128 | global_step: {step} | "
    "reduced_train_loss: 1.315 | train_step_timing in s: {speed} | consumed_samples: 16\n"
)
COMPOSER = "[batch={step}/40]:\n\t Train throughput/device/tokens_per_sec: {speed}.0000\n"
OWN = "step {step} loss 2.3456 rate 1.000e-04 seconds {speed}\n"
BAR = "  5%|5         | {step}/200 [00:30<09:30,  {speed}s/it]\r"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process "
    "has 77.90 GiB memory in use.\n"
)


def steps(line: str, first: float, later: float) -> str:
    """Return a log of eight steps, the first three of them of another speed."""
    return "".join(line.format(step=step, speed=first if step < 3 else later) for step in range(8))


def write(folder: Path, text: str) -> Path:
    path = folder / "run.log"
    path.write_text(text, encoding="utf-8")
    return path


def document(*words: str) -> dict[str, Any]:
    done = planner("diagnose", *words, "--format", "json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


@every(
    ("text", "source", "peak"),
    [
        (steps(MEGATRON, 9e4, 4e3), "Megatron", 51200 * MIB),
        (steps(TITAN, 10, 8192), "torchtitan", 47.18 * GIB),
        (steps(DEEPSPEED, 1, 32), "DeepSpeed", 19.5 * GIB),
        (steps(NANOTRON, 90, 4), "nanotron", 3000 * MIB),
        (steps(NEMO, 90, 4), "NeMo", None),
        ("Epoch 0: 100%|#| 9/9 [10:48<00:00, 3.1s/it, train_step_timing in s=4.000]\n", "NeMo", None),
        (steps(COMPOSER, 10, 8192), "Composer", None),
        (steps(OWN, 90, 4), "the planner's scripts", None),
        (steps(BAR, 90, 4), "the Hugging Face trainer", None),
        ("{'train_runtime': 50.0, 'train_steps_per_second': 0.25}\n", "the Hugging Face trainer", None),
    ],
)
def test_logs_tell_step_and_memory(tmp_path: Path, text: str, source: str, peak: float | None) -> None:
    """128 sequences of 4,096 tokens on 16: 4 s a step are 32 sequences/s and 8,192 tokens/s on each."""
    found = read_run_log(write(tmp_path, text))
    assert found.source == source
    assert found.seconds(128, 4096, 16) == pytest.approx(4.0)
    assert found.peak == (None if peak is None else pytest.approx(peak))
    assert not found.out_of_memory


def test_a_death_is_read_from_a_log_without_steps(tmp_path: Path) -> None:
    found = read_run_log(write(tmp_path, OOM))
    assert found.out_of_memory
    assert (found.peak, found.asked) == (pytest.approx(77.9 * GIB), pytest.approx(2 * GIB))
    assert found.seconds(1, 1, 1) is None


def test_a_text_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Megatron, torchtitan, DeepSpeed, nanotron"):
        read_run_log(write(tmp_path, "hello\n"))


@pytest.mark.parametrize(
    ("cause", "hidden"),
    [
        ("full recompute is on", ("--recompute", "full")),
        ("attention without a fused kernel", ("--set", "attention=unfused")),
        ("tensor parallel traffic not hidden", ("--set", "tp_exposed=1")),
    ],
)
def test_a_cause_that_was_put_there_is_named_first(cause: str, hidden: tuple[str, ...]) -> None:
    """The measured step is that of an estimate with the cause, priced by another command."""
    # Wide enough that no cause lies within the band.
    plain = ("--tp", "8", "--sequence-parallel", "--micro-batch", "2", "--set", "tp_overlap=on")
    done = planner("estimate", *JOB, *plain, *hidden, "--format", "json")
    seconds = json.loads(done.out)["step_time_s"]
    told = document(*JOB, *plain, "--step-time", str(seconds))
    assert told["causes"][0]["cause"] == cause
    assert told["causes"][0]["explains"] == pytest.approx(1.0, abs=1e-3)


def test_a_run_as_fast_as_estimated_has_no_causes() -> None:
    seconds = document(*JOB, *PLAN, "--step-time", "4")["estimate"]["step_time_s"]
    told = document(*JOB, *PLAN, "--step-time", str(seconds))
    assert told["within_band"]
    assert told["causes"] == []
    faster = [one["step_time_s"] for one in told["faster"]]
    assert faster == sorted(faster)
    assert all(one < seconds for one in faster)


def test_tokens_are_another_way_to_say_seconds() -> None:
    one = document(*JOB, *PLAN, "--step-time", "5")
    other = document(*JOB, *PLAN, "--tokens-per-s", str(128 * 4096 / 5))
    assert one == other


def test_a_launch_file_and_a_log_are_enough(tmp_path: Path) -> None:
    out, log = tmp_path / "out", write(tmp_path, steps(MEGATRON, 8e3, 8e3))
    assert planner("search", *JOB, "--top", "1", "--tp", "2", "--emit", str(out)).code == 0
    told = document(str(out / "train.sh"), "--hardware", "dgx-h100", "--gpus", "16", "--log", str(log))
    assert told["step_time_s"] == pytest.approx(8.0)
    assert told["estimate"]["plan"]["tp"] == 2
    saved = document(str(out / "plan.yaml"), "--log", str(log))
    assert saved["gap_share"] == pytest.approx(told["gap_share"], rel=0.02)
    assert len(saved["causes"]) >= 2


def test_out_of_memory_tells_what_holds_it_and_what_would_fit(tmp_path: Path) -> None:
    told = document(*JOB, *PLAN, "--log", str(write(tmp_path, OOM)))
    assert told["out_of_memory"]
    assert told["peak_gib"] == pytest.approx(77.9)
    peaks = [one["peak_gib"] for one in told["causes"]]
    assert peaks == sorted(peaks)
    assert min(peaks) > told["estimate"]["memory"]["peak_gib"]
    assert any(one["options"] == ["--recompute full"] for one in told["would_fit"])


@pytest.mark.parametrize("measured", [("--step-time", "9"), ("--oom",)])
def test_the_page_fits_a_screen(measured: tuple[str, ...]) -> None:
    done = planner("diagnose", *JOB, *PLAN, *measured)
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= (24 if measured[0] == "--step-time" else 36)


def test_nothing_measured_is_refused() -> None:
    done = planner("diagnose", *JOB, *PLAN)
    assert done.code == 2
    assert "--step-time, --tokens-per-s, --oom or --log FILE" in done.err
    both = planner("diagnose", *JOB, "--step-time", "x", "--tokens-per-s", "-3", "--log", "nowhere.log")
    assert both.err.startswith("error: 4 faults\n")


def test_memory_beyond_its_band_is_said(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(steps(TITAN, 10, 8192), encoding="utf-8")
    ask = ("diagnose", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--zero", "3", "--log", str(log))
    page = " ".join(planner(*ask, "--global-batch", "64").out.split())
    assert re.search(r"Measured \(torchtitan, median of \d steps\)", page)
    found = re.search(r"([\d.]+) GiB seen, ([\d.]+) estimated.* That is ([+-]\d+)%, beyond the band", page)
    assert found is not None
    assert int(found[3]) == pytest.approx(100 * (float(found[1]) / float(found[2]) - 1), abs=1)


def test_no_time_beyond_the_peak_is_explained_and_units_are_read() -> None:
    told = " ".join(planner("diagnose", *JOB, *PLAN, "--step-time", "1ms").out.split())
    assert "No accelerator is that fast" in told
    by_rate = document(*JOB, *PLAN, "--tokens-per-s", "50K")["step_time_s"]
    assert by_rate == document(*JOB, *PLAN, "--tokens-per-s", "50000")["step_time_s"] == 128 * 4096 / 50000
    missing = planner("diagnose", "not-there.sh")
    assert missing.code == 2
    assert "no file not-there.sh" in missing.err
