"""What each runner's own code makes of folders with launch files that were changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from planner.launchers import launchers
from planner.launchers.family import LauncherSettings
from planner.runtimes.family import Job, Runtime
from tests.validate.ask import answers, question
from tests.validate.megatron.bridge_runner import Bridge
from tests.validate.megatron.capture import Start, make_recorder, started
from tests.validate.megatron.plans import legal_plans
from tests.validate.megatron.runner import ROCM, Megatron, Verdict
from tests.validate.random_plans import cases

MOST_GPUS = 256
"""Of a plan whose files are changed: groups of more take long and are made the same way."""


class Folder(NamedTuple):
    """The launch files of one plan, as written or changed; ``asked`` is what a script that judges is told."""

    path: Path
    job: Job
    asked: Mapping[str, Any]


Judge = Callable[[Sequence[Folder]], list[Verdict]]


class Runner(NamedTuple):
    """The file that is changed, and who judges the folders."""

    file: str
    judge: Callable[[Path], Judge]


def folders(runtime: Runtime, seed: int, count: int, place: Path) -> Iterator[Folder]:
    """Write the files of random legal plans, each with a script beside them that starts it."""
    own = runtime.name.startswith("megatron")
    drawn = (
        legal_plans(seed, 1 << 30, runtime)
        if own
        else ((case.job, case.plan) for case in cases(runtime, seed, 1 << 30, True))
    )
    small = ((job, plan) for job, plan in drawn if job.gpus <= MOST_GPUS)
    for index, (job, plan) in zip(range(count), small, strict=False):
        assert runtime.command is not None
        command = runtime.command(plan, job, runtime.versions[0])
        path = place / f"{index}"
        path.mkdir()
        settings = LauncherSettings(runtime.title, "title", "job")
        texts = launchers()["torchrun"].files(command, job, settings)
        for name, text in {**texts, **(command.files or {})}.items():
            (path / name).write_text(text, encoding="utf-8")
        yield Folder(path, job, {} if own else question(job, plan, command, path))


def by_script(check: str, told: Callable[[Folder], Mapping[str, Any]]) -> Callable[[Path], Judge]:
    """Return a judge that is a script of this folder, told of each folder what its files say beside."""

    def judge(some: Sequence[Folder]) -> list[Verdict]:
        lines = [{**one.asked, "folder": str(one.path), **told(one)} for one in some]
        return [Verdict(one.get("refused", ""), one.get("derived", {})) for one in answers(lines, check)]

    return lambda _: judge


def _world(start: Start, gpus: int) -> int:
    """Return the ranks that a script's launcher starts; those of the plan where it would not start."""
    words = dict(zip(start.arguments, start.arguments[1:], strict=False))
    try:
        return int(words["--nnodes"]) * int(words["--nproc-per-node"])
    except (KeyError, ValueError):
        return gpus


def _torchtitan(folder: Folder) -> dict[str, Any]:
    start = started(folder.path / "train.sh", make_recorder(folder.path))
    arguments = start.arguments[start.arguments.index("-m") + 1 :]
    return {"gpus": _world(start, folder.job.gpus), "arguments": arguments, "smoke": ()}


def _deepspeed(folder: Folder) -> dict[str, Any]:
    raw = json.loads((folder.path / "ds_config.json").read_text())
    names = {"tp": "tensor_parallel.autotp_size", "ep": "expert_parallel.autoep_size"}
    said = {degree: _at(raw, name) for degree, name in names.items()}
    if not _at(raw, "expert_parallel.enabled"):
        said["ep"] = 1
    return {degree: size for degree, size in said.items() if type(size) is int and size > 0}


def _accelerate(folder: Folder) -> dict[str, Any]:
    ranks = yaml.safe_load((folder.path / "accelerate.yaml").read_text()).get("num_processes")
    return {"gpus": ranks} if type(ranks) is int and ranks > 0 else {}


def _at(tree: Any, name: str) -> Any:
    for key in name.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def by_megatron(place: Path) -> Judge:
    """Return Megatron-LM's code as the judge of scripts; ``place`` is for stand-ins of launchers."""
    megatron, recorder = Megatron(os.environ["MEGATRON_LM"]), make_recorder(place)

    def judge(folder: Folder) -> Verdict:
        try:
            start = started(folder.path / "train.sh", recorder)
        except RuntimeError as error:
            return Verdict(str(error))
        world = _world(start, folder.job.gpus)
        return megatron.judge(start, world, folder.job.hardware.pool.accelerator.compute_capability or ROCM)

    return lambda some: [judge(folder) for folder in some]


def by_bridge(place: Path) -> Judge:
    """Return Megatron-Bridge's code as the judge of Python files."""
    bridge = Bridge(os.environ["MEGATRON_BRIDGE"], os.environ["MEGATRON_LM"])

    def judge(folder: Folder) -> Verdict:
        capability = folder.job.hardware.pool.accelerator.compute_capability or ROCM
        return bridge.judge(folder.path / "train.py", folder.job.gpus, capability)

    return lambda some: [judge(folder) for folder in some]


RUNNERS: Mapping[str, Runner] = {
    "megatron-lm": Runner("train.sh", by_megatron),
    "megatron-bridge": Runner("train.py", by_bridge),
    "torchtitan": Runner("train.sh", by_script("check_torchtitan.py", _torchtitan)),
    "nanotron": Runner("nanotron.yaml", by_script("check_nanotron.py", lambda _: {"smoke": ()})),
    "deepspeed": Runner("ds_config.json", by_script("check_deepspeed.py", _deepspeed)),
    "fsdp": Runner("accelerate.yaml", by_script("check_accelerate.py", _accelerate)),
}
