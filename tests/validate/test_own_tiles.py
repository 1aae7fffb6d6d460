"""DeepSpeed's script with tiles of feed-forward and loss, really run: the losses of one without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.launchers import Card, launch_files, launchers, target
from planner.runtimes import runtimes
from tests.unit.runner_jobs import job, plan
from tests.validate.test_own_scripts import STEP, TINY, environment, pytestmark, run

__all__ = ["pytestmark"]


def losses(folder: Path, axes: dict[str, Any], **traits: float | bool) -> list[float]:
    """Run twenty steps on two processors and return the loss of each."""
    folder.mkdir()
    runtime = runtimes()["deepspeed"]
    task = job(TINY, 2, seq_len=64, global_batch=4)
    layout = plan(task, **axes)
    wanted = target(runtime.with_traits(**traits), launchers()["torchrun"], None)
    for name, text in launch_files(layout, task, wanted, Card()).items():
        (folder / name).write_text(text)
    printed = run(folder, environment(folder, layout, "deepspeed", SMOKE="1"))
    return [float(found[1]) for found in STEP.findall(printed)]


def test_a_run_in_tiles_has_the_losses_of_one_without(tmp_path: Path) -> None:
    axes = {"zero": 1}
    whole = losses(tmp_path / "whole", axes)
    tiled = losses(tmp_path / "tiled", axes, mlp_tiles=4.0, loss_chunks=8.0)
    assert len(whole) == len(tiled) > 1
    assert tiled == pytest.approx(whole, rel=2e-3)


def test_inputs_of_layers_on_the_host_leave_the_losses_as_they_are(tmp_path: Path) -> None:
    axes = {"zero": 3, "recompute": "full"}
    plain = losses(tmp_path / "plain", axes)
    hosted = losses(tmp_path / "hosted", axes, host_checkpoints=True)
    assert len(plain) == len(hosted) > 1
    assert hosted == pytest.approx(plain, rel=2e-3)
