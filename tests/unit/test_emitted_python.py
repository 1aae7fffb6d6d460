"""No Python file that is written for a runner uses a name that it does not define or import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.inputs.load_hardware import load_hardware
from planner.rules import violations
from planner.runtimes import runtimes
from tests.deep import deep
from tests.unit.runner_jobs import DENSE, MODELS, MOE, job, plan

CLUSTER = "gb200-nvl72"
"""An accelerator that has every format."""

LAYOUTS: tuple[dict[str, Any], ...] = (
    {"zero": 0},
    {"zero": 2},
    {"zero": 3, "recompute": "full"},
    {"zero": 1, "tp": 2},
    {"zero": 1, "pp": 2},
    {"zero": 3, "cp": 2, "cp_method": "ring"},
    {"zero": 3, "ep": 2},
)


def asked(name: str) -> Iterator[dict[str, Any]]:
    """Yield workloads in each format, with each optimizer, and of each way to train that a runtime has."""
    runtime = runtimes()[name]
    yield from ({"precision": precision} for precision in runtime.precisions)
    yield from ({"optimizer": optimizer} for optimizer in runtime.optimizers)
    yield from ({"method": method} for method in runtime.methods)


@pytest.mark.parametrize("name", list(runtimes()))
def test_every_name_of_a_written_file_is_defined_there(name: str, tmp_path: Path) -> None:
    runtime, written = runtimes()[name], 0
    for work in asked(name):
        for model in (DENSE, MOE, *MODELS[: deep(2, 6)]):
            task = job(model, 8, seq_len=2048, global_batch=64, **work)
            task = replace(task, hardware=load_hardware(CLUSTER))
            for axes in LAYOUTS:
                layout = plan(task, **axes)
                if runtime.command is None or violations(runtime.rules(layout, task)):
                    continue
                for file, text in (runtime.command(layout, task, runtime.versions[0]).files or {}).items():
                    if file.endswith(".py"):
                        (tmp_path / f"{written}_{file}").write_text(text, encoding="utf-8")
                        written += 1
    said = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,E9", str(tmp_path)]
    done = subprocess.run(said, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert written or name in ("megatron-lm", "nanotron")
