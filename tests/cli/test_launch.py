"""``planner emit`` as a user meets it: the folder, what is refused, and that the price is of what starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.inputs.load import load_model
from planner.inputs.model_yaml import model_yaml
from planner.runtimes import runtimes
from tests.cases import every
from tests.cli.command import planner_in
from tests.validate.megatron import cases

CLUSTER = ("--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "4096", "--global-batch", "64")


def saved(folder: Path, *more: str, model: str = "llama3-8b", name: str = "plan.yaml") -> Path:
    """Save the plan of an estimate, and return its file."""
    done = planner_in(folder, "estimate", model, *CLUSTER, *more, "--save", name)
    assert done.code == 0, done.err
    return folder / name


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("plan"), "--tp", "2", "--pp", "2", "--set", "fused_rope=false")


def test_what_was_set_is_in_the_script_also_where_its_own_target_is_named(plan: Path) -> None:
    for more in ((), ("--target", "megatron-lm")):
        done = planner_in(plan.parent, "emit", plan.name, "--out", "own", "--force", *more)
        assert done.code == 0, done.err
        assert "\n  --no-rope-fusion\n" in (plan.parent / "own" / "train.sh").read_text()


def test_another_target_is_priced_again_and_said(plan: Path) -> None:
    done = planner_in(plan.parent, "emit", plan.name, "--out", "other", "--target", "megatron-bridge")
    assert done.code == 0, done.err
    assert (
        "note: the plan was saved for megatron-lm; the run card has its price on megatron-bridge" in done.err
    )
    assert "without the traits that were set for megatron-lm" in done.err
    folder = plan.parent / "other"
    assert "dgx-h100, Megatron-Bridge;" in " ".join((folder / "README.md").read_text().split())
    assert yaml.safe_load((folder / "plan.yaml").read_text())["runtime"]["name"] == "megatron-bridge"


@every(
    ("options", "code", "words"),
    [
        (("--target", "fsdp"), 1, "no-pipeline: pp 2; needs pp 1: Accelerate has no pipeline; nearest: pp 1"),
        (("--target-version", "0.9"), 2, "a release of megatron-lm: 0.20, 0.19, 0.18, 0.17, 0.16"),
        (("--target", "torchtita"), 2, "nearest: torchtitan"),
        (("--launcher", "slurn"), 2, "nearest: slurm"),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_nearest_and_nothing_is_left(
    plan: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    done = planner_in(plan.parent, "emit", plan.name, "--out", "none", *options)
    assert done.code == code
    assert words in " ".join(done.err.split())
    assert not (plan.parent / "none").exists()


def test_the_folder_holds_a_users_own_model_and_cluster(tmp_path: Path) -> None:
    own = load_model("llama3-8b").model_copy(update={"name": 'my "own" $(touch pwned)'})
    (tmp_path / "my model.yaml").write_text(model_yaml(own))
    file = saved(tmp_path, model="my model.yaml")
    assert planner_in(tmp_path, "emit", file.name, "--out", "first").code == 0
    (tmp_path / "my model.yaml").unlink()
    again = planner_in(tmp_path, "emit", "first/plan.yaml", "--out", "second")
    assert again.code == 0, again.err
    assert "note: model" not in again.err
    scripts = [(tmp_path / folder / "train.sh").read_text() for folder in ("first", "second")]
    assert scripts[0] == scripts[1]
    assert not (tmp_path / "pwned").exists()


def test_smoke_files_are_asked_for_by_name(plan: Path) -> None:
    make = runtimes()["megatron-lm"].command
    assert make is not None
    own = make(cases.plan(8, 64), cases.job("llama3-8b", 8), "0.20")
    done = planner_in(plan.parent, "emit", plan.name, "--out", "trial", "--smoke")
    if own.smoke is None:
        assert done.code == 1
        assert f"megatron-lm has no smoke run: {own.no_smoke}" in " ".join(done.err.split())
        assert not (plan.parent / "trial").exists()
    else:
        assert done.code == 0
        assert "export SMOKE=${SMOKE-1}" in (plan.parent / "trial" / "train.sh").read_text()


def test_smoke_files_of_a_search_need_a_folder(tmp_path: Path) -> None:
    done = planner_in(tmp_path, "search", "llama3-8b", *CLUSTER, "--smoke")
    assert done.code == 2
    assert "--smoke: found no --emit; expected a folder for the files" in done.err
