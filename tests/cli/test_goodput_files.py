"""What launch files say of checkpoints and failures, for every runtime that can say it, read from them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner

JOB = (
    "search", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "32", "--cp", "1", "--uniform",
    "-q", "--top", "1",
)  # fmt: skip
GOODPUT = (*JOB, "--objective", "goodput", "--failures", "meta-a100", "--storage", "1GB/s")


def emitted(
    out: Path, runtime: str, recovery: str, launcher: str = "torchrun", *more: str
) -> tuple[dict, str]:
    """Return the first plan of a search, and all its files in one text."""
    ask = (*GOODPUT, "--runtime", runtime, "--recovery", recovery, "--launcher", launcher, *more)
    done = planner(*ask, "--emit", str(out), "--format", "json")
    assert done.code == 0, done.err
    text = "\n".join(
        path.read_text() for path in sorted(out.rglob("*")) if path.suffix in {".sh", ".py", ".sbatch"}
    )
    return done.json["plans"][0], text


@pytest.mark.parametrize(
    ("runtime", "behind"),
    [
        ("megatron-lm", "--async-save"),
        ("megatron-bridge", "async_save=True"),
        ("torchtitan", "--checkpoint.async_mode async_with_pinned_mem"),
        ("deepspeed", ""),
        ("fsdp", ""),
        ("nanotron", ""),
    ],
)
def test_every_runtime_saves_as_often_as_was_chosen(runtime: str, behind: str, tmp_path: Path) -> None:
    best, text = emitted(tmp_path / "run", runtime, "restart", "torchrun", "--tp", "1", "--pp", "1")
    assert f"SAVE_INTERVAL:-{best['steps_between_checkpoints']}}}" in text
    assert behind in text
    assert '--max-restarts "${RESTARTS}"' in text
    said = any(word in text for word in ("async_save=True", "--async-save", "async_mode"))
    assert said == bool(behind)
    again = planner("estimate", "--from", str(tmp_path / "run" / "train.sh"), "--hardware", "dgx-h100", "-q",
                    "--format", "json")  # fmt: skip
    assert again.code in (0, 1), again.err
    assert again.json["plan"]["dp"] == best["estimate"]["plan"]["dp"]


def test_megatron_keeps_copies_in_other_nodes_and_says_how_often(tmp_path: Path) -> None:
    best, text = emitted(tmp_path / "run", "megatron-lm", "in-memory", "torchrun", "--zero", "1")
    found = re.search(r"--non-persistent-save-interval (\d+)", text)
    assert found is not None
    assert int(found[1]) == best["steps_between_copies"]
    for words in ("--non-persistent-ckpt-type local", "--replication-jump 8", "--replication-factor 2"):
        assert words in text
    assert "LOCAL_DIR:-/dev/shm" in text


@every(
    ("runtime", "words"),
    [
        ("megatron-lm", "--inprocess-restart"),
        ("megatron-bridge", "inprocess_restart=InProcessRestartConfig(enabled=True, granularity='node')"),
    ],
)
def test_restarts_in_the_process_are_megatrons(runtime: str, words: str, tmp_path: Path) -> None:
    best, text = emitted(tmp_path / "run", runtime, "in-process", "torchrun", "--zero", "1")
    assert words in text
    assert "TORCH_CPP_LOG_LEVEL" in text
    share = 61 / 419
    assert best["restart_s"] == pytest.approx(share * 90 + (1 - share) * 1980 + best["checkpoint_written_s"])
    card = (tmp_path / "run" / "README.md").read_text()
    assert "nvidia-resiliency-ext" in card
    smoke = text.split("def smoke_config", 1)[-1]
    if runtime == "megatron-bridge":
        assert "config.inprocess_restart = None" in smoke
        assert "config.checkpoint.async_save = False" in smoke


def test_torchft_has_a_folder_for_each_replica_group(tmp_path: Path) -> None:
    best, text = emitted(tmp_path / "run", "torchtitan", "torchft", "torchrun", "--pp", "1")
    shards = best["estimate"]["plan"]["zero_shards"]
    groups = 32 // shards
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [f"group-{n}" for n in range(groups)]
    assert text.count(f"group_size={groups},") == groups
    assert text.count("min_replica_size=1,") == groups
    assert [f"--fault_tolerance.replica_id {number}" in text for number in range(groups)] == [True] * groups
    assert text.count(f"--training.num_tokens_per_train_step {512 * 4096}") == groups
    assert f"--nproc-per-node {min(8, shards)}" in text
    assert "torchft_lighthouse --min_replicas 1" in (tmp_path / "run" / "group-0" / "README.md").read_text()


def test_a_recovery_that_no_runner_has_is_told_on_the_card(tmp_path: Path) -> None:
    emitted(tmp_path / "run", "megatron-lm", "checkfree")
    card = (tmp_path / "run" / "README.md").read_text()
    assert "No runner is known to have checkfree" in card


@every(("failed", "count", "queued"), [(1, "0", True), (1, "20", False), (0, "0", False)])
def test_slurm_queues_a_failed_run_again_a_number_of_times(
    failed: int, count: str, queued: bool, tmp_path: Path
) -> None:
    emitted(tmp_path / "run", "deepspeed", "restart", "slurm", "--tp", "1")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in (
        ("srun", f"exit {failed}"),
        ("scontrol", f'echo "$@" >> "{tmp_path}/told"\necho node-0'),
    ):
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    known = {
        name: str(tmp_path) for name in ("OUTPUT_DIR", "DATA_PATH", "TOKENIZER_PATH", "SLURM_SUBMIT_DIR")
    }
    known |= {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "ACCOUNT": "a", "PARTITION": "p"}
    known |= {"SLURM_JOB_NODELIST": "node-0", "SLURM_RESTART_COUNT": count, "HERE": str(tmp_path / "run")}
    done = subprocess.run(
        ["bash", str(tmp_path / "run" / "train.sbatch")], env=known, capture_output=True, text=True
    )
    assert done.returncode == failed, done.stderr
    assert ("requeue 7" in (tmp_path / "told").read_text()) == queued


@every(
    ("launcher", "words"),
    [
        ("kubernetes", 'PET_MAX_RESTARTS="${RESTARTS}"'),
        ("ray", "failure_config=again"),
        ("skypilot", "max_restarts_on_errors: 20"),
    ],
)
def test_other_launchers_start_again_too(launcher: str, words: str, tmp_path: Path) -> None:
    emitted(tmp_path / "run", "deepspeed", "restart", launcher, "--tp", "1")
    text = "\n".join(path.read_text() for path in (tmp_path / "run").iterdir())
    assert words in text
    for path in (tmp_path / "run").glob("*.py"):
        compile(path.read_text(), path.name, "exec")
