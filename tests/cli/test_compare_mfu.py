"""``planner compare`` and ``planner mfu`` as a user meets them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner
from tests.cli.test_explain import JOB, save


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("plans")
    one = save(folder / "wide.yaml", "--tp", "8", "--sequence-parallel")
    return str(one), str(save(folder / "sharded.yaml", "--zero", "3"))


def test_plans_stand_side_by_side(plans: tuple[str, str]) -> None:
    done = planner("compare", *plans)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "sharded against wide:" in done.out
    document = planner("compare", *plans, "--format", "json").json
    first, second = document["plans"]
    (told,) = document["differences"]
    assert told["step_time_s"] == pytest.approx(second["step_time_s"] - first["step_time_s"])
    assert sum(told["time_s"].values()) == pytest.approx(told["step_time_s"])


def test_plans_too_many_for_a_line_go_on_below_in_80_columns(plans: tuple[str, str], tmp_path: Path) -> None:
    paths = [tmp_path / f"a_plan_of_number_{number}.yaml" for number in range(7)]
    for path in paths:
        path.write_text(Path(plans[0]).read_text())
    done = planner("compare", *map(str, paths))
    lines = done.out.splitlines()
    assert (done.code, max(map(len, lines)) <= 80) == (0, True)
    heads = [line.split() for line in lines if line.startswith(("figure ", "term ", "part "))]
    for first in ("figure", "term", "part"):
        told = [name for head in heads if head[0] == first for name in head[1:]]
        assert told == [path.stem for path in paths]
    assert sum(line.startswith("MFU  ") for line in lines) == sum(head[0] == "figure" for head in heads) > 1
    table = planner("compare", *map(str, paths), "--format", "markdown").out
    assert f"| figure | {' | '.join(path.stem for path in paths)} |" in table


def test_one_plan_on_several_clusters(tmp_path: Path) -> None:
    layout = ("--tp", "8", "--sequence-parallel", "--micro-batch", "8")
    wide = str(save(tmp_path / "wide.yaml", *layout))
    ask = ("compare", wide, "--hardware", "dgx-b200", "--hardware", "dgx-a100-80gb", "--format", "json")
    document = planner(*ask).json
    assert [plan["name"] for plan in document["plans"]] == ["wide", "dgx-b200", "dgx-a100-80gb"]
    times = [plan["step_time_s"] for plan in document["plans"]]
    assert times[1] < times[0] < times[2]
    alone = planner("estimate", *JOB[:2], "dgx-b200", *JOB[3:], *layout, "--format", "json")
    assert times[1] == alone.json["step_time_s"]


def test_a_plan_that_does_not_fit_exits_1_with_the_answer_in_full(plans: tuple[str, str]) -> None:
    done = planner("compare", plans[1], "--hardware", "a30-8-pcie", "--format", "json")
    assert done.code == 1
    assert [plan["feasible"] for plan in done.json["plans"]] == [True, False]


def test_a_comparison_as_rows(plans: tuple[str, str]) -> None:
    rows = list(csv.DictReader(io.StringIO(planner("compare", *plans, "--format", "csv").out)))
    assert [row["name"] for row in rows] == ["wide", "sharded"]


def test_mistakes_of_a_comparison_are_told_at_once(plans: tuple[str, str]) -> None:
    done = planner("compare", plans[0])
    assert (done.code, done.out) == (2, "")
    assert "two plans or more" in done.err
    done = planner("compare", "no.yaml", "none.yaml", "--hardware", "dgx-h10")
    assert done.code == 2
    assert "3 faults" in done.err
    assert "dgx-h100" in done.err
    done = planner("compare", plans[0], "--hardware", "jean-zay-v100")
    assert done.code == 2
    assert "--precision" in done.err


def test_a_step_time_and_the_token_rates_that_it_makes_agree(plans: tuple[str, str]) -> None:
    tokens = 64 * 4096
    asks = [
        ("--step-time", "3"),
        ("--tokens-per-s", str(tokens / 3)),
        ("--tokens-per-s-per-gpu", str(tokens / 3 / 16)),
    ]
    shares = [planner("mfu", plans[0], *ask, "--format", "json").json["mfu"] for ask in asks]
    assert shares == pytest.approx([shares[0]] * 3)
    model = planner("mfu", *JOB, "--tp", "8", "--sequence-parallel", *asks[0], "--format", "json").json
    assert model["mfu"] == shares[0]
    gap = model["step_time_s"] - model["estimate"]["step_time_s"]
    assert model["gap_s"] == pytest.approx(gap)


def test_the_text_states_its_conventions(plans: tuple[str, str]) -> None:
    done = planner("mfu", plans[0], "--step-time", "30")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    for words in ("causal attention", "arXiv:2204.02311", "dense peak", "What could explain the gap"):
        assert words in done.out
    assert "above 100%" in planner("mfu", plans[0], "--step-time", "0.01").out
    rows = list(
        csv.DictReader(io.StringIO(planner("mfu", plans[0], "--step-time", "3", "--format", "csv").out))
    )
    assert [row["name"] for row in rows] == ["MFU", "HFU", "PaLM's MFU", "6ND"]


@every(
    ("arguments", "words"),
    [
        ((), "exactly one measurement"),
        (("--step-time", "1", "--tokens-per-s", "2"), "exactly one measurement"),
        (("--step-time", "0"), "above 0"),
        (("--step-time", "nan"), "--step-time"),
        (("--step-time", "fast"), "--step-time"),
        (("--step-time", "1", "--tp", "2", "--gpus", "8"), "2 faults"),
    ],
)
def test_mistakes_of_a_measurement_are_told(
    plans: tuple[str, str], arguments: tuple[str, ...], words: str
) -> None:
    done = planner("mfu", plans[0], *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_its_own_cluster_is_no_second_one(plans: tuple[str, str]) -> None:
    done = planner("compare", plans[0], "--hardware", "dgx-h100")
    assert done.code == 2
    assert "on its own cluster" in done.err
