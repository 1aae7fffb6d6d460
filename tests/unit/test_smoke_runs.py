"""The two kinds of run that one script starts, with variables unset, set, and holding a blend of data."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import UnsupportedPlan
from planner.launchers import Card, launch_files, target
from planner.launchers._runs import _value
from planner.launchers.family import LauncherSettings
from planner.runtimes import runtimes
from planner.runtimes.family import Command, StepLine
from planner.runtimes.nanotron.files import STEP_LINE
from planner.runtimes.training_run import FIELDS, SOURCES, TrainingRun, run_of
from planner.runtimes.variables import VARIABLES
from tests.cases import every
from tests.unit.test_launchers import LAUNCHERS, SHELLCHECK, expanded, recorded, run, stand_in
from tests.validate.megatron import cases

INSIDE = {"SLURM_JOB_ID": "7", "SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "n[0-1]", "SLURM_SUBMIT_DIR": "/s"}
SRUN = '#!/bin/bash\nwhile [[ "$1" != bash ]]; do shift; done\nexec "$@"\n'
SPEAKS = """#!/bin/bash
printf '%s\\0' "$@" > "{folder}/torchrun.argv"
env -0 > "{folder}/torchrun.env"
for step in 9000 1200 1100 1300; do echo "x elapsed time per iteration (ms): $step.0 | y"; done
"""
STEP = StepLine(r"elapsed time per iteration \(ms\): *([0-9.]+)", divisor=1000)


def both(**fields: Any) -> Command:
    """Return a command of both kinds of run."""
    known: dict[str, Any] = {
        "program": ("train.py", "--layers", "2"),
        "environment": {"PLAIN": "1"},
        "production": ("--data", "${DATA_PATH[@]}", "--out", "${OUTPUT_DIR}/a b", "--seed", "${SEED}"),
        "smoke": ("--mock-data", "--seed", "${SEED}"),
        "closing": ("--last",),
        "production_needs": ("DATA_PATH", "OUTPUT_DIR"),
        "defaults": {"SEED": "1234", "DATA_CACHE": "${OUTPUT_DIR}/cache"},
        "where_set": {"TENSORBOARD_DIR": ("--tensorboard", "${TENSORBOARD_DIR}"), "WANDB_PROJECT": ()},
        "step_line": STEP,
    }
    return Command(**(known | fields))


def written(launcher: str, folder: Path, own: Command, smoke: bool = False, gpus: int = 16) -> dict[str, str]:
    """Write a launcher's files for a command into ``folder`` and return them."""
    work = cases.job("llama3-8b", gpus, seq_len=8192, global_batch=64)
    said = LauncherSettings("Runtime", "title", "name", smoke=smoke)
    files = dict(LAUNCHERS[launcher].files(own, work, said))
    for name, text in files.items():
        (folder / name).write_text(text)
    return files


def started(
    launcher: str, folder: Path, own: Command, smoke: bool = False, **user: str
) -> tuple[list[str], dict[str, str], str]:
    """Return the arguments, environment and output of a start with stand-ins for all programs."""
    programs = folder / "programs"
    programs.mkdir()
    stand_in(programs, "torchrun", SPEAKS.format(folder=programs))
    stand_in(programs, "scontrol", "#!/bin/bash\nprintf 'first\\nsecond\\n'\n")
    stand_in(programs, "srun", SRUN)
    stand_in(programs, "kubectl")
    files = written(launcher, folder, own, smoke)
    main = folder / next(iter(files))
    if launcher in ("kubernetes", "skypilot"):
        main, user = pod(launcher, folder, programs, user)
    else:
        user |= INSIDE | {"MASTER_ADDR": "first", "ACCOUNT": "a", "PARTITION": "p"}
    done = run(main, programs, **user)
    assert done.returncode == 0, done.stderr
    exported = (programs / "torchrun.env").read_text().split("\0")
    parts = recorded(programs, "torchrun")
    return (
        parts[parts.index("train.py") :],
        dict(line.split("=", 1) for line in exported if line),
        done.stdout,
    )


def pod(launcher: str, folder: Path, programs: Path, user: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """Return what runs on a node, and with which environment."""
    user = user | {"IMAGE": "i"}
    if launcher == "skypilot":
        stand_in(programs, "sky", f"#!/bin/bash\nenv -0 > '{programs}/sky.env'\n")
        assert run(folder / "launch.sh", programs, **user).returncode == 0
        task = yaml.safe_load((folder / "task.yaml").read_text())
        shell = (programs / "sky.env").read_text().split("\0")
        known = dict(line.split("=", 1) for line in shell if line)
        text, env = task["run"], {name: known.get(name, value) for name, value in task["envs"].items()}
        env |= {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    else:
        done = run(folder / "submit.sh", programs, **user)
        assert done.returncode == 0, done.stderr
        trainer = yaml.safe_load((programs / "kubectl.stdin").read_text())["spec"]["trainer"]
        text, values = trainer["command"][2], {entry["name"]: entry["value"] for entry in trainer["env"]}
        text, env = expanded(text), {name: expanded(value) for name, value in values.items()}
    (folder / "node.sh").write_text(text)
    return folder / "node.sh", env


def test_what_is_set_and_has_no_effect_is_told(tmp_path: Path) -> None:
    stand_in(tmp_path, "torchrun")
    written("torchrun", tmp_path, both(), smoke=True)
    done = run(tmp_path / "train.sh", tmp_path, MINUTES="5", DATA_CACHE="/c")
    assert done.returncode == 0
    assert done.stderr.count("MINUTES has no effect here") == 1
    assert "DATA_CACHE" not in done.stderr


SHELLS = ["torchrun", "slurm", "kubernetes", "skypilot"]
DATA = {"DATA_PATH": "0.7 /a 0.3 /b"}


@every("launcher", SHELLS)
def test_a_real_run_has_the_real_arguments(launcher: str, tmp_path: Path) -> None:
    words, env, output = started(launcher, tmp_path, both(), **DATA, OUTPUT_DIR=str(tmp_path / "o p"))
    data = ["--data", "0.7", "/a", "0.3", "/b", "--out", f"{tmp_path / 'o p'}/a b", "--seed", "1234"]
    assert words == ["train.py", "--layers", "2", *data, "--last"]
    assert (env["SMOKE"], env["DATA_CACHE"]) == ("", f"{tmp_path / 'o p'}/cache")
    assert "planner mfu" not in output


@every("launcher", SHELLS)
@every("asked", ["variable", "option"])
def test_a_smoke_run_asks_for_nothing_and_says_how_to_go_on(
    launcher: str, asked: str, tmp_path: Path
) -> None:
    user = {"SMOKE": "1"} if asked == "variable" else {}
    user |= {"OUTPUT_DIR": str(tmp_path / "o")} if launcher == "slurm" else {}
    words, env, output = started(launcher, tmp_path, both(), asked == "option", SEED="7", **user)
    assert words == ["train.py", "--layers", "2", "--mock-data", "--seed", "7", "--last"]
    assert env["SMOKE"] == "1"
    assert re.search(r"planner mfu \S*plan\.yaml --step-time 1\.2$", output, re.MULTILINE)


@every("off", ["0", ""])
def test_a_smoke_run_can_be_turned_off(off: str, tmp_path: Path) -> None:
    words, _, _ = started("torchrun", tmp_path, both(), True, SMOKE=off, **DATA, OUTPUT_DIR="o")
    assert "--data" in words


@every("launcher", SHELLS)
def test_arguments_that_stand_only_where_a_variable_does(launcher: str, tmp_path: Path) -> None:
    words, _, _ = started(
        launcher, tmp_path, both(), **DATA, OUTPUT_DIR=str(tmp_path), TENSORBOARD_DIR="t $(touch pwned) b"
    )
    assert words[-3:] == ["--tensorboard", "t $(touch pwned) b", "--last"]
    assert not list(tmp_path.rglob("pwned"))


@every(
    ("given", "words"),
    [
        ("0.7 $(touch pwned) 0.3 *", ["0.7", "$(touch", "pwned)", "0.3", "*"]),
        ("HERE/my data", ["HERE/my data"]),
        ("HERE/my set_text", ["HERE/my set_text"]),
        ("a\n b\tc", ["a", "b", "c"]),
        ("one", ["one"]),
    ],
)
def test_a_blend_is_several_words_and_a_path_is_one(given: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "my data").mkdir()
    (tmp_path / "my set_text.bin").touch()
    wanted = [word.replace("HERE", str(tmp_path)) for word in words]
    found, _, _ = started(
        "torchrun", tmp_path, both(), DATA_PATH=given.replace("HERE", str(tmp_path)), OUTPUT_DIR="o"
    )
    assert found[found.index("--data") + 1 : found.index("--out")] == wanted
    assert not list(tmp_path.rglob("pwned"))


@every("launcher", SHELLS)
def test_a_runtime_without_a_smoke_run_says_so(launcher: str, tmp_path: Path) -> None:
    files = written(launcher, tmp_path, both(smoke=None, no_smoke="it's so"))
    done = run(tmp_path / next(iter(files)), tmp_path, SMOKE="1")
    assert (done.returncode, done.stderr) == (2, "There is no smoke run: it's so.\n")


def test_smoke_files_of_a_runtime_without_one_are_refused() -> None:
    own = runtimes()["megatron-lm"]
    entry = own.__class__(**{**vars(own), "command": lambda *_: both(smoke=None, no_smoke="no data")})
    job, plan = cases.job("llama3-8b", 16, seq_len=8192, global_batch=64), cases.plan(16, 64)
    with pytest.raises(UnsupportedPlan, match="megatron-lm has no smoke run: no data"):
        launch_files(plan, job, target(entry, LAUNCHERS["torchrun"]), Card(), smoke=True)


@pytest.mark.parametrize("launcher", SHELLS)
def test_scripts_of_both_kinds_pass_shellcheck(launcher: str, tmp_path: Path) -> None:
    """Those of another smoke run, an empty one and none, with data and with nothing, in one call."""
    scripts: list[str] = []
    for number, (smoke, production) in enumerate(
        product((("--mock",), (), None), (("--data", "${DATA_PATH[@]}"), ()))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        scripts += scripts_of(launcher, smoke, production, folder)
    assert len(scripts) >= 6
    subprocess.run([SHELLCHECK, *scripts], check=True)


def scripts_of(
    launcher: str, smoke: tuple[str, ...] | None, production: tuple[str, ...], folder: Path
) -> list[str]:
    """Write a launcher's files and return its shell scripts, those inside other files among them."""
    own = both(smoke=smoke, production=production, where_set={} if not production else both().where_set)
    files = written(launcher, folder, own)
    if launcher == "kubernetes":
        files["pod.sh"] = yaml.safe_load(files["trainjob.yaml"])["spec"]["trainer"]["command"][2].replace(
            "$$", "$"
        )
    if launcher == "skypilot":
        files["pod.sh"] = yaml.safe_load(files["task.yaml"])["run"]
    found = []
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            (folder / name).write_text(text if text.startswith("#!") else f"#!/usr/bin/env bash\n{text}")
            found.append(str(folder / name))
    return found


RAY = """
import json, runpy, sys, types
calls = {}
ray = types.ModuleType("ray"); ray.init = lambda **k: calls.update(k)
train = types.ModuleType("ray.train"); torch = types.ModuleType("ray.train.torch")
train.RunConfig = train.ScalingConfig = lambda **k: k
class TorchTrainer:
    def __init__(self, loop, **rest):
        self.loop = loop
    def fit(self):
        import os
        os.environ.update(calls["runtime_env"]["env_vars"])
        self.loop()
torch.TorchTrainer = TorchTrainer
sys.modules.update({"ray": ray, "ray.train": train, "ray.train.torch": torch})
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@every("smoke", [False, True])
def test_ray_starts_both_kinds(smoke: bool, tmp_path: Path) -> None:
    own = both(files={"train.py": "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"})
    written("ray", tmp_path, own, smoke)
    (tmp_path / "train.py").write_text((own.files or {})["train.py"])
    (tmp_path / "stub.py").write_text(RAY)
    user = {"OUTPUT_DIR": "o"} | ({} if smoke else {**DATA, "TENSORBOARD_DIR": "t b"})
    start = [sys.executable, str(tmp_path / "stub.py"), str(tmp_path / "train_ray.py")]
    done = subprocess.run(start, env=user, capture_output=True, text=True, check=True)
    data = '"--data", "0.7", "/a", "0.3", "/b", "--out", "o/a b", "--seed", "1234", "--tensorboard", "t b"'
    real = f'["--layers", "2", {data}, "--last"]'
    lines = done.stdout.splitlines()
    if smoke:
        assert lines[0] == '["--layers", "2", "--mock-data", "--seed", "1234", "--last"]'
        assert lines[1].endswith("plan.yaml --step-time SECONDS")
    else:
        assert lines == [real]


def test_every_number_of_a_run_says_where_it_is_from() -> None:
    assert set(SOURCES) == set(TrainingRun.__dataclass_fields__)
    assert set(FIELDS) <= set(VARIABLES)
    job = cases.job("llama3-8b", 16, seq_len=8192, global_batch=64)
    assert run_of(job).defaults(*FIELDS).keys() == FIELDS.keys()


@every(
    ("model", "method", "rate"),
    [
        ("llama3-8b", "full", 3e-4),
        ("llama3-70b", "full", 1.5e-4),
        ("llama3.1-405b", "full", 8e-5),
        ("llama3-8b", "lora", 2e-4),
        ("llama3-70b", "qlora", 1e-4),
    ],
)
def test_rates_are_the_published_ones(model: str, method: str, rate: float) -> None:
    run = run_of(cases.job(model, 64, seq_len=8192, global_batch=64, method=method))
    assert run.learning_rate == rate
    assert run.min_learning_rate == pytest.approx(rate / 10)


@every(("tokens", "warm"), [(None, 10), (8192 * 64 * 5, 0), (1e12, 2000)])
def test_a_short_run_warms_up_for_a_tenth_of_it(tokens: float | None, warm: int) -> None:
    run = run_of(cases.job("llama3-8b", 64, seq_len=8192, global_batch=64, tokens=tokens))
    assert run.warmup_steps == warm
    assert run.decay_steps == run.train_steps >= run.warmup_steps


def test_the_rate_falls_until_the_last_step_that_the_user_sets(tmp_path: Path) -> None:
    numbers = run_of(cases.job("llama3-8b", 16, seq_len=8192, global_batch=64)).defaults(*FIELDS)
    _, env, _ = started("torchrun", tmp_path, both(defaults=numbers), SMOKE="1", TRAIN_STEPS="77")
    assert (env["TRAIN_STEPS"], env["DECAY_STEPS"], env["SEED"]) == ("77", "77", "1234")


@every("launcher", ["torchrun", "slurm"])
@every("smoke", ["1", ""])
def test_a_run_that_fails_is_not_told_as_one_that_ran(launcher: str, smoke: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    stand_in(programs, "torchrun", "#!/bin/bash\necho elapsed time per iteration \\(ms\\): 1\nexit 3\n")
    stand_in(programs, "scontrol", "#!/bin/bash\necho first\n")
    stand_in(programs, "srun", SRUN)
    files = written(launcher, tmp_path, both())
    user = INSIDE | {"ACCOUNT": "a", "PARTITION": "p", "OUTPUT_DIR": str(tmp_path / "o"), "MASTER_ADDR": "m"}
    done = run(tmp_path / next(iter(files)), programs, **user, **DATA, SMOKE=smoke)
    assert done.returncode == 3
    assert "planner mfu" not in done.stdout


@every(
    ("logged", "seconds"),
    [
        (["523", "531", "498"], 0.523),
        (["1.23K", "1.21K", "1.3K"], 1.23),
        (["999", "1.01K", "998"], 0.999),
        (["12.3K"], 12.3),
    ],
)
def test_steps_of_nanotron_are_read_below_a_second_too(
    logged: list[str], seconds: float, tmp_path: Path
) -> None:
    """Its log writes three digits, and K for thousands of milliseconds."""
    log = tmp_path / "log"
    log.write_text("".join(f"[INFO] | time_per_iteration_ms: {text} | lm_loss: 9.1\n" for text in logged))
    script = f"log={log}\n{_value(STEP_LINE)}echo ${{value}}\n"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    assert float(done.stdout) == pytest.approx(seconds)
