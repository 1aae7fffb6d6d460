"""The files of one plan for each target, to be read as a diff when they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Runtime
from planner.runtimes.fsdp import ENTRY as FSDP
from planner.runtimes.nanotron import ENTRY as NANOTRON
from planner.runtimes.torchtitan import ENTRY as TORCHTITAN
from tests.unit import runner_jobs as jobs

HERE = Path(__file__).resolve().parent
PIPE = {"pp": 4, "tp": 2, "vpp": 2, "schedule": "interleaved-1f1b", "sequence_parallel": True}

PLANS = [
    ("fsdp", FSDP, "1.15.0", jobs.DENSE, {"cp": 2, "tp": 4, "zero_shards": 8, "recompute": "full"}),
    (
        "torchtitan-main",
        TORCHTITAN,
        "main-2026-08-21",
        jobs.MOE,
        {"ep": 8, "pp": 2, "recompute": "selective"},
    ),
    ("torchtitan-0.2.2", TORCHTITAN, "0.2.2", jobs.DENSE, PIPE),
    ("deepspeed-whole", DEEPSPEED, "0.19.8", jobs.DENSE, {"cp": 8, "cp_method": "all-to-all"}),
    ("deepspeed-pipeline", DEEPSPEED, "0.19.8", jobs.DENSE, {"pp": 4, "zero": 1, "recompute": "full"}),
    ("nanotron", NANOTRON, "0.5", jobs.DENSE, {"zero": 1, "pp": 4, "stage_layers": (9, 9, 8, 6)}),
]


@pytest.mark.parametrize(
    ("name", "runtime", "version", "model", "axes"), PLANS, ids=[plan[0] for plan in PLANS]
)
def test_files_are_those_last_read(
    golden: Callable[[Path, str], None],
    name: str,
    runtime: Runtime,
    version: str,
    model: object,
    axes: object,
) -> None:
    task = jobs.job(model, 64)  # type: ignore[arg-type]
    assert runtime.command is not None
    command = runtime.command(jobs.plan(task, **axes), task, version)  # type: ignore[arg-type]
    exports = "".join(f"{key}={value}\n" for key, value in command.environment.items())
    program = "\n".join(("-m" * command.module, *command.program)).strip()
    kinds = {"real": command.production, "smoke": command.smoke or (), "closing": command.closing}
    more = "".join(f"# {kind}\n" + "".join(f"{part}\n" for part in parts) for kind, parts in kinds.items())
    golden(HERE / name / "command.txt", f"{exports}{program}\n{more}")
    for file, text in (command.files or {}).items():
        golden(HERE / name / f"{file}.txt", text)
