"""``planner resume`` and ``planner goodput --lose`` as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import planner

JOB = (
    "estimate",
    "llama3-8b",
    "--hardware",
    "dgx-h100",
    "--global-batch",
    "128",
    "--sequence-parallel",
    "-q",
)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    for name, gpus, tp in (("large", 64, 8), ("small", 32, 8), ("other", 32, 4)):
        done = planner(*JOB, "--gpus", str(gpus), "--tp", str(tp), "--save", str(folder / f"{name}.yaml"))
        assert done.code == 0, done.err
    return folder


def test_half_the_replicas_load_and_half_of_the_optimizer_moves(plans: Path) -> None:
    done = planner("resume", str(plans / "large.yaml"), str(plans / "small.yaml"), "--storage", "10GB/s",
                   "--format", "json")  # fmt: skip
    assert done.code == 0
    told = done.json
    params = told["old"]["model"]["params"]
    assert told["loads"] is True
    assert told["moves"]["other_nodes_bytes"] == pytest.approx(12 * params / 2)
    assert told["moves"]["in_place_bytes"] == pytest.approx(12 * params / 2 + 2 * params * 4)
    assert told["checkpoint_bytes"] == pytest.approx(14 * params)
    assert told["through_storage_s"] == pytest.approx(14 * params / 10e9)
    assert sorted(set(told["numbering"])) == sorted(told["numbering"])


def test_another_layout_of_megatron_does_not_load_unless_it_was_saved_for_that(plans: Path) -> None:
    ask = ("resume", str(plans / "large.yaml"), str(plans / "other.yaml"))
    done = planner(*ask)
    assert done.code == 1
    assert "does not load" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert planner(*ask, "--fully-reshardable").code == 0


def test_a_lost_node_leaves_a_plan_whose_checkpoint_loads(plans: Path) -> None:
    ask = ("goodput", str(plans / "large.yaml"), "--storage", "10GB/s", "-q")
    told = planner(*ask, "--lose", "1", "--format", "json").json
    assert told["gpus"] <= 56
    assert told["resume"]["loads"] is True
    assert told["waiting_better_below_s"] == pytest.approx(told["transition_s"] * (1 + 1 / told["speed"]))
    page = planner("goodput", str(plans / "small.yaml"), "--storage", "10GB/s", "-q", "--lose", "2").out
    assert "Waiting is better" in page
    assert max(map(len, page.splitlines())) <= 80


def test_nodes_that_return_pay_where_enough_is_left(plans: Path) -> None:
    ask = ("goodput", str(plans / "small.yaml"), "--storage", "10GB/s", "-q", "--nodes-return", "4")
    told = planner(*ask, "--format", "json").json
    assert told["gpus"] == 64
    assert told["pays_above_s"] == pytest.approx(told["transition_s"] / (1 - 1 / told["speed"]))


def test_faults_are_told(plans: Path) -> None:
    plan = str(plans / "small.yaml")
    done = planner("goodput", plan, "--lose", "0", "--nodes-return", "1")
    assert done.code == 2
    for words in ("--lose: found '0'", "--nodes-return", "--storage: found nothing"):
        assert words in done.err
    assert planner("goodput", plan, "--lose", "9", "--storage", "1GB/s").code == 2
    assert planner("resume", plan, plan, "--storage", "fast").code == 2


def test_degrees_are_kept_on_fewer_accelerators_where_the_batch_does_not_divide(tmp_path: Path) -> None:
    """A batch of 128 over seven nodes: what loads under Megatron-LM's buckets are four of them."""
    path = tmp_path / "plan.yaml"
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "64", "--global-batch", "128")
    assert planner("estimate", *job, "--tp", "8", "--pp", "2", "-q", "--save", str(path)).code == 0
    ask = ("goodput", str(path), "--storage", "40GB/s", "-q", "--lose", "1")
    done = planner(*ask, "--repair", "10min", "--format", "json")
    assert done.code == 0, done.err
    told = done.json
    assert told["gpus"] == 32
    assert (told["resume"]["new"]["plan"]["tp"], told["resume"]["new"]["plan"]["pp"]) == (8, 2)
    assert told["waits"] is True
    assert told["in_place"]["rerouted_s"] == pytest.approx(told["resume"]["old"]["step_time_s"] * 4 / 3)
    assert told["in_place"]["recut_s"] < told["in_place"]["rerouted_s"]
    later = planner(*ask, "--repair", "10h").out
    assert "go on" in later
    assert "arXiv:2510.00606" in later
    free = planner(*ask, "--fully-reshardable", "--format", "json").json
    assert free["resume"]["new"]["step_time_s"] <= told["resume"]["new"]["step_time_s"]
    alone = planner("goodput", str(path), "--repair", "1h")
    assert alone.code == 2
    assert "--repair: found no --lose" in alone.err
