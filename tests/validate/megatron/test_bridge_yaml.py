"""The YAML that Megatron-Bridge saves of a run is read as the Python file that made it.

MEGATRON_BRIDGE and MEGATRON_LM name checkouts; ``VALIDATE_PLANS`` says how many plans (20 where unset).
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

from planner.launchers import launchers
from planner.launchers.family import LauncherSettings
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cli.command import Done, planner
from tests.validate.ask import SEED
from tests.validate.megatron.bridge_runner import Bridge
from tests.validate.megatron.capture import USER
from tests.validate.megatron.plans import legal_plans
from tests.validate.megatron.runner import ROCM

COUNT = int(os.environ.get("VALIDATE_PLANS", "20"))
MOST_GPUS = 512
RUNTIME = runtimes()["megatron-bridge"]

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not (os.environ.get("MEGATRON_BRIDGE") and os.environ.get("MEGATRON_LM")),
        reason="MEGATRON_BRIDGE and MEGATRON_LM name no checkouts",
    ),
]


def saved(file: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the file's ``build_config`` and let Megatron-Bridge save what it returns."""
    for name, value in (USER | {"CHECKPOINT": str(file.parent), "WORLD_SIZE": str(job.gpus)}).items():
        monkeypatch.setenv(name, value)
    scope: dict[str, Any] = {"__name__": "emitted", "__file__": str(file)}
    place = file.with_name("run_config.yaml")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(file.read_text(), str(file), "exec"), scope)
        scope["build_config"]().to_yaml(str(place))
    return place


def told(path: Path, job: Job) -> Done:
    """Price a launch file on the job's accelerators."""
    where = ("--hardware", job.hardware.name, "--gpus", str(job.gpus))
    return planner("estimate", "--from", str(path), *where, "--format", "json")


def test_a_saved_run_has_the_price_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = Bridge(os.environ["MEGATRON_BRIDGE"], os.environ["MEGATRON_LM"])
    faults = []
    drawn = ((job, plan) for job, plan in legal_plans(SEED, 1 << 30, RUNTIME) if job.gpus <= MOST_GPUS)
    for index, (job, plan) in zip(range(COUNT), drawn, strict=False):
        assert RUNTIME.command is not None
        command, folder = RUNTIME.command(plan, job, RUNTIME.versions[0]), tmp_path / str(index)
        folder.mkdir()
        files = launchers()["torchrun"].files(command, job, LauncherSettings("title", "cite", "job"))
        for name, text in {**files, **(command.files or {})}.items():
            (folder / name).write_text(text, encoding="utf-8")
        capability = job.hardware.pool.accelerator.compute_capability or ROCM
        bridge.capability = divmod(round(capability * 10), 10)
        paths = (folder / "train.py", saved(folder / "train.py", job, monkeypatch))
        python, yaml = (told(path, job) for path in paths)
        if yaml.code not in (0, 1):
            faults.append(f"{index}: {yaml.err}")
            continue
        parts = ("step_time_s", "plan", "settings")
        same = all(python.json.get(part) == yaml.json.get(part) for part in parts)
        if not same or yaml.json["from"]["not_understood"]:
            faults.append(f"{index}: {job.model.name} {plan}: {yaml.json['from']['not_understood']}")
    assert not faults, "\n".join(faults)
