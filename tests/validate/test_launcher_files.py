"""What the schedulers' own code makes of the files: SkyPilot, Kubeflow, Slurm's table of options.

VALIDATE_PYTHON names an interpreter with skypilot, which brings jsonschema; KUBEFLOW_TRAINER a checkout of
Kubeflow Trainer (TrainJob), KUBEFLOW_V1 one of its release 1.9 (PyTorchJob); SLURM one of Slurm, PYXIS one of
the plug-in that runs containers under it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.inputs.load_hardware import load_hardware
from planner.launchers import Card, launch_files, launchers, target
from planner.launchers.skypilot import ACCELERATORS
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.helpers import ROOT
from tests.validate.ask import COUNT, PYTHON, SEED, has
from tests.validate.megatron import cases
from tests.validate.megatron.plans import legal_plans

pytestmark = pytest.mark.torch

NASTY = "a 'b' \"c\" $(touch pwned) ${HOME} $$ \\1 & d\ne"
USER = {
    "DATA_PATH": NASTY,
    "TOKENIZER_PATH": "t",
    "OUTPUT_DIR": "o",
    "CHECKPOINT": "c",
    "IMAGE": "host/image:1",
}
OPTIONS = {
    "QUEUE": "team-a", "PULL_SECRET": "registry", "RDMA_RESOURCE": "rdma/hca_shared", "RDMA_COUNT": "4",
}  # fmt: skip
FOLDERS = ({"VOLUME": "shared-claim", "MOUNT": "/data"}, {"HOST_PATH": "/mnt/all"}, {})
"""What a user may set for Kubernetes beside what has to be set."""

RECORDER = (
    '#!/bin/bash\nprintf "%s\\0" "$@" > "${RECORD}/argv"\nenv -0 > "${RECORD}/env"\n'
    '[[ -t 0 ]] || cat > "${RECORD}/stdin"\n'
)
KUBEFLOW = {"trainjob.yaml": "KUBEFLOW_TRAINER", "pytorchjob.yaml": "KUBEFLOW_V1"}


def written(launcher: str) -> Iterator[tuple[Job, Plan, dict[str, str]]]:
    """Yield random legal plans of both runtimes on Megatron-core, with their files."""
    for name in ("megatron-lm", "megatron-bridge"):
        wanted = target(runtimes()[name], launchers()[launcher])
        for job, plan in legal_plans(SEED, COUNT, wanted.runtime):
            if plan.offload == "optimizer":  # whether a node's memory holds it is no question of launchers
                plan = replace(plan, offload="none")
            yield job, plan, launch_files(plan, job, wanted, Card())


def started(
    folder: Path, program: str, files: dict[str, str], *arguments: str, **options: str
) -> tuple[list[str], str]:
    """Run the main script with a stand-in for ``program``; return its arguments and its standard input."""
    for name, text in {program: RECORDER, **files}.items():
        (folder / name).write_text(text)
    (folder / program).chmod(0o755)
    environment = USER | options | {"RECORD": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    main = ["bash", str(folder / next(iter(files))), *arguments]
    subprocess.run(main, env=environment, cwd=folder, check=True, stdin=subprocess.DEVNULL)
    assert not (folder / "pwned").exists()
    return (folder / "argv").read_text().split("\0")[:-1], (folder / "stdin").read_text()


def exported(folder: Path) -> dict[str, str]:
    """Return the environment that the stand-in was started with."""
    lines = (folder / "env").read_text().split("\0")[:-1]
    return dict(line.split("=", 1) for line in lines)


def answers(check: str, questions: list[dict[str, Any]], home: Path) -> list[dict[str, Any]]:
    """Return the answers of a check that runs beside the scheduler's own code."""
    run = subprocess.run(
        [PYTHON, ROOT / "tests/validate" / check],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": str(home)},
        check=False,
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(questions), run.stderr[-2000:]
    assert [answer["refused"] for answer in found if "refused" in answer] == []
    return [answer["derived"] for answer in found]


@pytest.mark.needs("sky", "no interpreter with skypilot in VALIDATE_PYTHON")
def test_skypilot_reads_every_task_as_meant(tmp_path: Path) -> None:
    cases_ = list(written("skypilot"))
    questions = []
    for number, (_, _, files) in enumerate(cases_):
        folder = tmp_path / str(number)
        folder.mkdir()
        bucket = {"BUCKET": "s3://data", "TMPDIR": str(folder)} if number % 4 == 0 else {}
        arguments = started(folder, "sky", files, **bucket)[0]
        questions.append({"arguments": arguments, "environment": exported(folder)})
    told = answers("check_skypilot.py", questions, tmp_path)
    for (job, _, files), question, found in zip(cases_, questions, told, strict=True):
        task = yaml.safe_load(files["task.yaml"])
        ranks = min(8, job.gpus)
        assert found["nodes"] * ranks == job.gpus
        kind = ACCELERATORS[job.hardware.pool.accelerator.name]
        assert found["accelerators"] == {kind: ranks}
        assert (found["run"], found["name"]) == (task["run"], task["name"])
        assert found["image"] == ["docker:host/image:1"]
        assert found["envs"] == {name: question["environment"][name] for name in task["envs"]}
        assert found["envs"].items() >= {name: USER[name] for name in ("DATA_PATH", "OUTPUT_DIR")}.items()
        bucket = {"source": "s3://data", "mode": "MOUNT_CACHED", "persistent": True}
        mounted = {"/workspace": bucket} if question["environment"]["BUCKET"] else {}
        assert found["mounts"] == mounted


@pytest.mark.needs("sky", "no interpreter with skypilot in VALIDATE_PYTHON")
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100-80gb", "dgx-b200", "dgx-h200", "gb200-nvl72"])
def test_skypilot_knows_the_names_of_accelerators(name: str, tmp_path: Path) -> None:
    gpus = load_hardware(name).pool.gpus_per_node
    job, plan = cases.job("llama3-8b", gpus, hardware=name), cases.plan(gpus, 512)
    files = launch_files(plan, job, target(runtimes()["megatron-lm"], launchers()["skypilot"]), Card())
    arguments = started(tmp_path, "sky", files)[0]
    question = {"arguments": arguments, "environment": exported(tmp_path)}
    (found,) = answers("check_skypilot.py", [question], tmp_path)
    assert found["accelerators"] == {ACCELERATORS[job.hardware.pool.accelerator.name]: gpus}


@pytest.mark.needs("jsonschema", "no interpreter with jsonschema in VALIDATE_PYTHON")
@pytest.mark.parametrize("manifest", KUBEFLOW)
def test_kubeflow_takes_every_manifest(manifest: str, tmp_path: Path) -> None:
    checkout = os.environ.get(KUBEFLOW[manifest])
    if not checkout:
        pytest.skip(f"{KUBEFLOW[manifest]} names no checkout of Kubeflow Trainer")
    questions = []
    for number, (_, _, files) in enumerate(written("kubernetes")):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = (OPTIONS if number % 2 else {}) | FOLDERS[number % 3]
        sent = started(folder, "kubectl", files, manifest, **options)[1]
        questions.append({"manifest": sent, "definitions": checkout})
    found = answers("check_kubernetes.py", questions, tmp_path)
    if has("kubernetes_validate"):
        assert all(answer["pods"] for answer in found)


def slurm_options(program: str) -> dict[str, str]:
    """Return the long options of ``sbatch`` or ``srun``, each with whether it takes an argument."""
    table = (Path(os.environ["SLURM"]) / "src/common/slurm_opt.c").read_text()
    found = {}
    for block in re.findall(r"static slurm_cli_opt_t \w+ = \{(.*?)\n\};", table, re.DOTALL):
        name, takes = re.search(r'\.name = "([^"]+)"', block), re.search(r"\.has_arg = (\w+)_argument", block)
        if name and takes and re.search(rf"\.set_func(_{program})? = ", block):
            found[name[1]] = takes[1]
    return found


def container_options() -> dict[str, str]:
    """Return the options that the plug-in adds to ``srun``."""
    text = (Path(os.environ["PYXIS"]) / "args.c").read_text()
    words = {"1": "required", "0": "no"}
    options = re.findall(r'\{\s*"(container-[a-z-]+)",.*?\n\s*([01]), [01], spank', text, re.DOTALL)
    return {name: words[takes] for name, takes in options}


def used(words: list[str]) -> dict[str, str]:
    """Return the options among ``words``, each with whether it was given an argument."""
    options = [word.removeprefix("--").partition("=") for word in words if word.startswith("--")]
    return {name: "required" if equals else "no" for name, equals, _ in options}


@pytest.mark.skipif(not os.environ.get("SLURM"), reason="SLURM names no checkout of Slurm")
def test_slurm_has_every_option() -> None:
    known = {program: slurm_options(program) for program in ("sbatch", "srun")}
    known["srun"] |= container_options() if os.environ.get("PYXIS") else {}
    seen: set[str] = set()
    racks = cases.job("llama3-8b", 144, hardware="gb200-nvl72", global_batch=144)
    plan = cases.plan(144, 144)
    rack = launch_files(plan, racks, target(runtimes()["megatron-lm"], launchers()["slurm"]), Card())
    for files in [rack, *(files for *_, files in written("slurm"))]:
        text = files["train.sbatch"]
        directives = [
            line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")
        ]
        calls = {"sbatch": directives, "srun": []}
        for program, call in re.findall(r"\b(sbatch|srun) (--(?:[^\n]|\\\n)*)", text.replace("\\\n", " ")):
            calls[program] += shlex.split(call.partition(" bash -c")[0])
        for options in re.findall(r"^ +(?:if .*)?options\+?=\((.*?)\)", text, re.MULTILINE):
            calls["sbatch"] += shlex.split(options)
        calls["srun"] += re.findall(r"--container-\w+=", text) if os.environ.get("PYXIS") else []
        for program, words in calls.items():
            for name, given in used(words).items():
                takes = known[program].get(name)
                assert takes in (given, "optional"), f"{program} --{name}: {takes}, given {given}"
                seen.add(name)
    assert {"job-name", "nodes", "switches", "segment", "kill-on-bad-exit", "account"} <= seen
    assert {"time", "qos", "reservation"} <= seen
