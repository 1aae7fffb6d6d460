"""Launch files: what they start, what they say where something is unset, and that nothing else runs."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibrate.runs.table import COLUMNS
from planner.errors import InputError, UnsupportedPlan
from planner.launchers import Card, launch_files, launchers, target
from planner.launchers._shell import job_name, quoted
from planner.launchers.family import VARIABLES, Launcher, LauncherSettings, node_shape
from planner.launchers.kubernetes import object_name
from planner.registry import find
from planner.runtimes import runtimes
from planner.runtimes.family import Command
from tests.cases import every
from tests.cli.command import planner
from tests.validate.megatron import cases

LAUNCHERS = launchers()
MEGATRON = runtimes()["megatron-lm"]
BRIDGE = runtimes()["megatron-bridge"]
NASTY = """it's a "$(touch pwned)" `touch pwned` ${HOME} \\ ; touch pwned & | > x
second line"""
SHELLCHECK = str(Path(sys.executable).with_name("shellcheck"))


def command(**fields: Any) -> Command:
    known: dict[str, Any] = {
        "program": ("train.py", "--name", NASTY, "--data", "${DATA_PATH}", "--out", "${OUTPUT_DIR}/a b"),
        "environment": {"PLAIN": "1", "ODD": NASTY},
        "needs": ("DATA_PATH", "OUTPUT_DIR"),
    }
    return Command(**(known | fields))


def written(
    launcher: str, folder: Path, start: Command | None = None, gpus: int = 16, **job: Any
) -> dict[str, str]:
    """Write a launcher's files for a command into ``folder`` and return them."""
    work = cases.job("llama3-8b", gpus, **({"seq_len": 8192, "global_batch": 64} | job))
    settings = LauncherSettings("Runtime", "title", "name")
    files = dict(LAUNCHERS[launcher].files(start or command(), work, settings))
    for name, text in files.items():
        (folder / name).write_text(text)
    return files


def stand_in(folder: Path, name: str, text: str = "") -> None:
    """Put a program into ``folder`` that records its arguments, its environment and its input."""
    folder.mkdir(exist_ok=True)
    record = f"""#!/bin/bash
printf '%s\\0' "$@" > "{folder}/{name}.argv"
env -0 > "{folder}/{name}.env"
if [[ ! -t 0 ]]; then cat > "{folder}/{name}.stdin"; fi
"""
    (folder / name).write_text(text or record)
    (folder / name).chmod(0o755)


def run(script: Path, programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(script)],
        cwd=script.parent,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": "/nowhere"} | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )


def recorded(programs: Path, name: str) -> list[str]:
    return (programs / f"{name}.argv").read_text().split("\0")[:-1]


def test_the_usual_launchers_are_in_the_table() -> None:
    assert set(LAUNCHERS) >= {"kubernetes", "ray", "skypilot", "slurm", "torchrun"}
    assert find(LAUNCHERS, "K8s", "--launcher").name == "kubernetes"


def test_help_names_every_launcher() -> None:
    words = " ".join(planner("emit", "--help").out.split())
    assert [name for name in LAUNCHERS if name not in words] == []


@settings(max_examples=30)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=20
    )
)
def test_no_text_is_more_than_text_to_the_shell(texts: list[str]) -> None:
    literal = [text for text in texts if "${" not in text]
    script = "printf '%s\\0' " + " ".join(map(quoted, literal))
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == literal or literal == []


def test_only_the_users_variables_are_expanded() -> None:
    script = "HOME=no OUTPUT_DIR='a b'; printf '%s' " + quoted("${OUTPUT_DIR}/${HOME}/$OUTPUT_DIR")
    assert subprocess.check_output(["bash", "-c", script], text=True) == "a b/${HOME}/$OUTPUT_DIR"


@every("name", ["My model; rm -rf /", "", "---", "a" * 200, "模型", "x\n#SBATCH --wrap=id"])
def test_a_job_name_is_safe_for_every_scheduler(name: str) -> None:
    safe = job_name(name)
    assert 0 < len(safe) <= 60
    assert set(safe) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert safe[0] != "-" != safe[-1]


@every("launcher", ["torchrun", "slurm"])
def test_what_starts_is_the_command_and_nothing_else(tmp_path: Path, launcher: str) -> None:
    programs = tmp_path / "programs"
    stand_in(programs, "torchrun")
    stand_in(programs, "scontrol", "#!/bin/bash\nprintf 'first\\nsecond\\n'\n")
    stand_in(programs, "srun", '#!/bin/bash\nwhile [[ "$1" != bash ]]; do shift; done\nexec "$@"\n')
    files = written(launcher, tmp_path)
    inside = {
        "SLURM_JOB_ID": "7",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NODELIST": "n[0-1]",
        "SLURM_SUBMIT_DIR": "/s",
    }
    user = {name: NASTY for name in VARIABLES if name != "SMOKE"}
    done = run(tmp_path / next(iter(files)), programs, **user, **inside, MASTER_ADDR="first")
    assert done.returncode == 0, done.stderr
    started = recorded(programs, "torchrun")
    wanted = ["train.py", "--name", NASTY, "--data", NASTY, "--out", f"{NASTY}/a b"]
    assert started[-len(wanted) :] == wanted
    assert ("--nnodes", "2") in itertools.pairwise(started)
    assert ("--nproc-per-node", "8") in itertools.pairwise(started)
    exported = (programs / "torchrun.env").read_text().split("\0")
    assert {"PLAIN=1", f"ODD={NASTY}", f"DATA_PATH={NASTY}"} <= set(exported)
    if launcher == "slurm":
        assert ("--node-rank", "1") in itertools.pairwise(started)
        assert ("--master-addr", "first") in itertools.pairwise(started)
    assert not list(tmp_path.rglob("pwned"))


def test_one_node_needs_no_address(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "torchrun")
    written("torchrun", tmp_path, gpus=4)
    done = run(tmp_path / "train.sh", tmp_path / "programs", DATA_PATH="d", OUTPUT_DIR="o")
    assert done.stderr == ""
    assert recorded(tmp_path / "programs", "torchrun")[:5] == [
        "--nnodes", "1", "--nproc-per-node", "4", "--standalone",
    ]  # fmt: skip


@every(
    ("launcher", "needs"),
    [
        ("torchrun", ["DATA_PATH", "OUTPUT_DIR"]),
        ("slurm", ["DATA_PATH", "OUTPUT_DIR", "ACCOUNT", "PARTITION"]),
        ("kubernetes", ["DATA_PATH", "OUTPUT_DIR", "IMAGE"]),
        ("skypilot", ["DATA_PATH", "OUTPUT_DIR", "IMAGE"]),
    ],
)
def test_an_unset_variable_stops_the_script_with_one_sentence(
    tmp_path: Path, launcher: str, needs: list[str]
) -> None:
    programs = tmp_path / "programs"
    for name in ("torchrun", "sbatch", "kubectl", "sky"):
        stand_in(programs, name)
    script = tmp_path / next(iter(written(launcher, tmp_path)))
    for missing in needs:
        done = run(script, programs, **{name: "x" for name in needs if name != missing})
        sentence = f"Set the variable {missing} to {VARIABLES[missing]} before starting this script.\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
    assert not list(programs.glob("*.argv"))


def test_a_slurm_script_submits_itself_with_account_and_partition(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "sbatch")
    written("slurm", tmp_path)
    user = {"DATA_PATH": "d", "OUTPUT_DIR": str(tmp_path / "o p"), "ACCOUNT": "a b", "PARTITION": "$(id)"}
    done = run(tmp_path / "train.sbatch", tmp_path / "programs", **user)
    assert done.returncode == 0, done.stderr
    submitted = recorded(tmp_path / "programs", "sbatch")
    assert submitted[:2] == ["--account=a b", "--partition=$(id)"]
    assert submitted[-1] == str(tmp_path / "train.sbatch")
    assert (tmp_path / "o p").is_dir()


SAVES = {"where_set": {"MINUTES": ("--minutes", "${MINUTES}")}}
SLURM_USER = {"DATA_PATH": "d", "ACCOUNT": "a", "PARTITION": "p"}


def test_a_chain_under_slurm_is_an_array_one_at_a_time(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "sbatch")
    user = SLURM_USER | {"OUTPUT_DIR": str(tmp_path / "o"), "CHAIN": "5"}
    written("slurm", tmp_path, command(**SAVES))
    assert run(tmp_path / "train.sbatch", tmp_path / "programs", **user).returncode == 0
    assert "--array=1-5%1" in recorded(tmp_path / "programs", "sbatch")
    written("slurm", tmp_path)
    assert run(tmp_path / "train.sbatch", tmp_path / "programs", **user).returncode == 0
    assert "--array=1-5%1" not in recorded(tmp_path / "programs", "sbatch"), (
        "the run saves nothing to go on from"
    )


@every(
    ("array", "minutes", "status", "cancels", "queues"),
    [
        ("77", "9", 0, True, False),
        ("77", "0", 0, False, False),
        ("77", "9", 3, False, False),
        ("", "0", 0, False, True),
        ("", "9", 0, False, False),
    ],
    ids=["done", "at its end", "failed", "alone at its end", "alone, done"],
)
def test_what_follows_a_job_under_slurm(
    array: str, minutes: str, status: int, cancels: bool, queues: bool, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    stand_in(programs, "srun", f"#!/bin/bash\nexit {status}\n")
    for name in ("scontrol", "scancel"):
        stand_in(programs, name, f'#!/bin/bash\necho "$@" >> "{tmp_path}/{name}"\necho node0\n')
    written("slurm", tmp_path, command(**SAVES))
    inside = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node0", "SLURM_SUBMIT_DIR": str(tmp_path)}
    inside |= {"SLURM_ARRAY_JOB_ID": array} if array else {}
    user = SLURM_USER | {"OUTPUT_DIR": str(tmp_path / "o"), "MINUTES": minutes}
    done = run(tmp_path / "train.sbatch", programs, **user, **inside)
    assert done.returncode == status, done.stderr
    assert (tmp_path / "scancel").exists() == cancels
    if cancels:
        assert (tmp_path / "scancel").read_text() == "--state=PENDING 77\n"
    assert ("requeue 1" in (tmp_path / "scontrol").read_text()) == queues


@every(
    ("data", "mounted"),
    [("data/part_text_document", "data"), ("my data", "my data"), ("/absent", ""), ("0.3 /a 0.7 /b", "")],
)
def test_a_container_under_slurm_sees_the_users_paths(data: str, mounted: str, tmp_path: Path) -> None:
    for name in ("data", "my data", "out"):
        (tmp_path / name).mkdir()
    stand_in(tmp_path / "programs", "srun")
    stand_in(tmp_path / "programs", "scontrol", "#!/bin/bash\necho node0\n")
    written("slurm", tmp_path)
    given = str(tmp_path / data) if mounted else data
    user = {"DATA_PATH": given, "OUTPUT_DIR": str(tmp_path / "out"), "ACCOUNT": "a", "PARTITION": "p"}
    inside = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node0", "SLURM_SUBMIT_DIR": str(tmp_path)}
    done = run(tmp_path / "train.sbatch", tmp_path / "programs", **user, **inside, IMAGE="i")
    assert done.returncode == 0, done.stderr
    (option,) = [part for part in recorded(tmp_path / "programs", "srun") if "mounts=" in part]
    places = {tmp_path, tmp_path / "out"} | ({tmp_path / mounted} if mounted else set())
    mounts = option.removeprefix("--container-mounts=").split(",")
    assert sorted(mounts) == sorted(f"{place}:{place}" for place in places)


@every(
    ("hardware", "gpus", "hint"),
    [
        ("dgx-h100", 8, None),
        ("dgx-h100", 64, "--switches=1@00:10:00"),
        ("gb200-nvl72", 72, "--segment=18"),
        ("gb200-nvl72", 144, "--segment=18"),
        ("gb200-nvl72", 64, "--segment=16"),
    ],
)
def test_slurm_directives_come_first_and_hint_at_the_topology(
    tmp_path: Path, hardware: str, gpus: int, hint: str | None
) -> None:
    text = written("slurm", tmp_path, gpus=gpus, hardware=hardware)["train.sbatch"]
    head = text.split("\n# title", 1)[0].splitlines()
    assert head[0] == "#!/usr/bin/env bash"
    assert all(line.startswith("#SBATCH --") for line in head[1:])
    per_node = 4 if hardware.startswith("gb200") else 8
    assert {f"#SBATCH --nodes={gpus // per_node}", f"#SBATCH --gpus-per-node={per_node}"} <= set(head)
    hints = [line for line in head if "segment" in line or "switches" in line]
    assert hints == ([f"#SBATCH {hint}"] if hint else [])


def test_accelerators_fill_whole_nodes() -> None:
    assert node_shape(cases.job("llama3-8b", 4)) == (1, 4)
    assert node_shape(cases.job("llama3-8b", 32)) == (4, 8)
    with pytest.raises(InputError, match=r"--gpus: found 12; expected whole nodes of 8.*nearest: 8 or 16"):
        node_shape(cases.job("llama3-8b", 12))


def expanded(text: str, **variables: str) -> str:
    """Return what Kubernetes makes of a command or a value: third_party/forked/golang/expansion, in words."""
    done, rest = "", text
    while rest:
        before, dollar, rest = rest.partition("$")
        done += before
        if not dollar:
            break
        name = re.match(r"\(([^)]*)\)", rest)
        if rest.startswith("$"):
            done, rest = done + "$", rest[1:]
        elif name:
            done, rest = done + variables.get(name[1], f"$({name[1]})"), rest[name.end() :]
        else:
            done += "$"
    return done


def test_kubernetes_replaces_nothing_in_what_a_pod_runs(tmp_path: Path) -> None:
    user = {"DATA_PATH": "$(OUTPUT_DIR) $$ $(id)", "OUTPUT_DIR": "o", "IMAGE": "i"}
    own = command(program=("train.py", "$(DATA_PATH)", "$$", "$(touch pwned)"))
    stand_in(tmp_path / "programs", "kubectl")
    plain = written("kubernetes", tmp_path, own)["trainjob.yaml"]
    assert run(tmp_path / "submit.sh", tmp_path / "programs", **user).returncode == 0
    sent = yaml.safe_load((tmp_path / "programs" / "kubectl.stdin").read_text())["spec"]["trainer"]
    values = {entry["name"]: expanded(entry["value"], **user) for entry in sent["env"]}
    assert values == {name: user.get(name, "") for name in values}
    script = expanded(sent["command"][2], **user)
    assert "train.py '$(DATA_PATH)' '$$' '$(touch pwned)'" in script
    assert "$$(DATA_PATH)" in plain


@every("name", ["70b", "a" * 60, "llama-" * 9 + "x"])
def test_kubernetes_names_begin_with_a_letter_and_leave_room(name: str) -> None:
    assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", object_name(name))
    assert len(object_name(name)) + len("-worker-99999-abcde.x") <= 63


def test_kubernetes_gets_the_users_variables_whatever_they_hold(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "kubectl")
    own = command(
        program=("train.py", "{{IMAGE}}x"), files={"train.py": "print('END_OF_FILE')\nEND_OF_FILE\n"}
    )
    written("kubernetes", tmp_path, own)
    user = {"DATA_PATH": NASTY, "OUTPUT_DIR": "a & b \\1", "IMAGE": 'host/image:"1"'}
    done = run(tmp_path / "submit.sh", tmp_path / "programs", **user)
    assert done.returncode == 0, done.stderr
    sent = yaml.safe_load((tmp_path / "programs" / "kubectl.stdin").read_text())
    trainer = sent["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert trainer["image"] == user["IMAGE"]
    assert {entry["name"]: expanded(entry["value"]) for entry in trainer["env"]} == {
        "DATA_PATH": NASTY, "OUTPUT_DIR": user["OUTPUT_DIR"], "SMOKE": "",
    }  # fmt: skip
    assert trainer["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": 8}


def test_a_pod_writes_its_files_and_starts_the_command(tmp_path: Path) -> None:
    text = "print('END_OF_FILE')\nEND_OF_FILE\n$(touch pwned)\n"
    own = command(program=("train.py", "--name", NASTY), files={"train.py": text}, needs=())
    files = written("kubernetes", tmp_path, own)
    for kind in ("trainjob.yaml", "pytorchjob.yaml"):
        spec = yaml.safe_load(files[kind])["spec"]
        pod = (
            spec["trainer"]
            if kind == "trainjob.yaml"
            else (spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0])
        )
        assert pod["command"][:2] == ["bash", "-c"]
        programs = tmp_path / "programs"
        stand_in(programs, "torchrun")
        (tmp_path / "pod.sh").write_text(
            expanded(pod["command"][2]).replace("$(mktemp -d)", str(tmp_path / "here"))
        )
        done = run(tmp_path / "pod.sh", programs)
        assert done.returncode == 0, done.stderr
        assert recorded(programs, "torchrun") == [str(tmp_path / "here" / "train.py"), "--name", NASTY]
        assert (tmp_path / "here" / "train.py").read_text() == text
    assert spec["pytorchReplicaSpecs"]["Worker"]["replicas"] == 1
    assert not list(tmp_path.rglob("pwned"))


def test_a_sky_task_starts_the_command_on_each_node(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    stand_in(programs, "torchrun")
    stand_in(programs, "sky")
    files = written("skypilot", tmp_path)
    task = yaml.safe_load(files["task.yaml"])
    assert task["num_nodes"] == 2
    assert task["resources"]["accelerators"] == "H100:8"
    assert task["envs"] == {"DATA_PATH": None, "OUTPUT_DIR": None, "SMOKE": ""}
    (tmp_path / "run.sh").write_text(task["run"])
    node = {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "DATA_PATH": "d"}
    done = run(tmp_path / "run.sh", programs, **node, OUTPUT_DIR="o")
    assert done.returncode == 0, done.stderr
    started = recorded(programs, "torchrun")
    assert started[started.index("--master-addr") + 1] == "10.0.0.1"
    assert started[started.index("--node-rank") + 1] == "1"
    assert started[-6:] == ["--name", NASTY, "--data", "d", "--out", "o/a b"]
    assert run(tmp_path / "launch.sh", programs, DATA_PATH="d", OUTPUT_DIR="o", IMAGE="i m").returncode == 0
    assert recorded(programs, "sky")[:5] == ["launch", "--image-id", "docker:i m", "--env", "DATA_PATH"]


def test_an_accelerator_without_a_name_in_skypilot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedPlan, match=r"no name known for mi250x-gcd"):
        written("skypilot", tmp_path, hardware="frontier-mi250x")


RAY = """
import sys, types
calls = {}
def init(**given):
    import os, shutil
    calls.update(given)
    if folder := given["runtime_env"].get("working_dir"):
        shutil.copytree(folder, "sent")
ray = types.ModuleType("ray"); ray.init = init
train = types.ModuleType("ray.train"); torch = types.ModuleType("ray.train.torch")
train.RunConfig = train.ScalingConfig = lambda **k: k
class TorchTrainer:
    def __init__(self, loop, scaling_config, run_config):
        calls.update(loop=loop, scaling=scaling_config)
    def fit(self):
        import os
        os.environ.update(calls["runtime_env"]["env_vars"], HERE="/elsewhere")
        sys.path.insert(0, os.path.abspath("sent"))
        calls["loop"]()
torch.TorchTrainer = TorchTrainer
sys.modules.update({"ray": ray, "ray.train": train, "ray.train.torch": torch})
import runpy
runpy.run_path(sys.argv[1], run_name="__main__")
import json
print(json.dumps(calls["scaling"]))
"""


def test_ray_runs_the_program_in_every_worker(tmp_path: Path) -> None:
    own = command(
        program=("main.py", "--name", NASTY, "--data", "${DATA_PATH}", "--out", "${OUTPUT_DIR}/a b"),
        files={"main.py": "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['ODD']]))\n"},
    )
    written("ray", tmp_path, own)
    (tmp_path / "checkpoint.bin").write_text("what an earlier run left")
    (tmp_path / "stub.py").write_text(RAY)
    start = [sys.executable, str(tmp_path / "stub.py"), str(tmp_path / "train_ray.py")]
    done = subprocess.run(
        start,
        env={"DATA_PATH": "d", "OUTPUT_DIR": "o"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {path.name for path in (tmp_path / "sent").iterdir()} == {"main.py", "train_ray.py"}
    arguments, scaling = done.stdout.splitlines()
    assert json.loads(arguments) == [["--name", NASTY, "--data", "d", "--out", "o/a b"], NASTY]
    assert json.loads(scaling)["num_workers"] == 16
    done = subprocess.run(start, env={"DATA_PATH": "d"}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"Set the variable OUTPUT_DIR to {VARIABLES['OUTPUT_DIR']} before starting this script.\n"
    )


def test_files_of_a_command_are_found_beside_the_script(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "torchrun")
    own = command(
        program=("train.py", "--config", "job.json"), files={"train.py": "", "job.json": "{}"}, needs=()
    )
    folder = tmp_path / "a b"
    folder.mkdir()
    files = written("torchrun", folder, own, gpus=8)
    assert set(files) == {"train.sh", "train.py", "job.json"}
    assert run(folder / "train.sh", tmp_path / "programs").returncode == 0
    started = recorded(tmp_path / "programs", "torchrun")
    assert started[-3:] == [str(folder / "train.py"), "--config", str(folder / "job.json")]
    exported = (tmp_path / "programs" / "torchrun.env").read_text().split("\0")
    assert f"PYTHONPATH={folder}" in exported


def test_a_module_is_started_as_one(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "torchrun")
    written("torchrun", tmp_path, command(program=("pkg.train", "x"), module=True, needs=()), gpus=8)
    run(tmp_path / "train.sh", tmp_path / "programs")
    assert recorded(tmp_path / "programs", "torchrun")[-3:] == ["-m", "pkg.train", "x"]


@every("launcher", LAUNCHERS.values(), ids=lambda entry: entry.name)
def test_shell_files_pass_the_shells_own_check(tmp_path: Path, launcher: Launcher) -> None:
    files = written(launcher.name, tmp_path)
    for name in files:
        if name.endswith((".sh", ".sbatch")):
            subprocess.run(["bash", "-n", str(tmp_path / name)], check=True)
        elif name.endswith(".py"):
            ast.parse(files[name])


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=lambda entry: entry.name)
@pytest.mark.parametrize("runtime", [MEGATRON, BRIDGE], ids=lambda entry: entry.name)
def test_shell_files_pass_shellcheck(tmp_path: Path, launcher: Launcher, runtime: Any) -> None:
    job, plan = cases.job("llama3-8b", 16, seq_len=8192, global_batch=64), cases.plan(16, 64)
    for name, text in launch_files(plan, job, target(runtime, launcher), Card()).items():
        if text.startswith("#!"):
            (tmp_path / name).write_text(text)
            subprocess.run([SHELLCHECK, str(tmp_path / name)], check=True)


def folder_of(card: Card | None = None, launcher: str = "torchrun", **fields: Any) -> dict[str, str]:
    job, plan = cases.job("llama3-8b", 16, seq_len=8192, global_batch=64), cases.plan(16, 64, **fields)
    return launch_files(plan, job, target(MEGATRON, LAUNCHERS[launcher]), card or Card())


def test_a_folder_says_what_was_planned_and_how_to_check_it() -> None:
    card = Card("plan: here\n", "step 3.2 s", {"step time": "3.2 s ± 5%", "odd | name": "a\nb"})
    files = folder_of(card, tp=4.0, sequence_parallel=True)
    assert set(files) == {"train.sh", "README.md", "measured.csv", "plan.yaml"}
    assert files["plan.yaml"] == "plan: here\n"
    readme = files["README.md"]
    for text in (
        "| tp | 4 |",
        "step 3.2 s",
        "| step time | 3.2 s ± 5% |",
        "planner validate measured.csv",
        "reshard",
    ):
        assert text in readme.replace("load under other degrees", "reshard")
    (row,) = csv.DictReader(io.StringIO(files["measured.csv"]))
    known = {"gpu": "h100-80gb-sxm", "num_gpus": "16", "model": "llama3-8b", "tp": "4", "dp": "4"}
    assert {name: row[name] for name in known} == known
    assert row["step_time_s"] == ""
    assert set(row) == set(COLUMNS), "a column that the run table knows is missing"


def test_the_version_stands_in_the_file() -> None:
    assert (
        "# Megatron-LM 0.20, as read in https://github.com/NVIDIA/Megatron-LM/tree/"
        in folder_of()["train.sh"]
    )


def test_an_unknown_version_lists_the_known_ones() -> None:
    with pytest.raises(
        InputError, match=r"--target-version: found '0.99'; expected one of 0.20, 0.19, 0.18, 0.17, 0.16 for"
    ):
        target(MEGATRON, LAUNCHERS["torchrun"], "0.99")


def test_a_plan_that_the_runtime_cannot_run_is_refused_with_every_reason() -> None:
    with pytest.raises(UnsupportedPlan) as refused:
        folder_of(tp=4.0, zero=3, offload="optimizer", recompute="selective:qkv")
    for rule in ("offload-needs-distributed-optimizer", "recompute-module"):
        assert rule in str(refused.value)
