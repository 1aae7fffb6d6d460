"""The map from ranks to devices and groups, against groups counted out by hand."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

from planner.cost.estimate import Estimate
from planner.report.explain import groups
from planner.report.explain_ranks import leaving, rank_rows, ranks_page
from tests.cases import every
from tests.cli.command import planner

AXES = ("tp", "cp", "dp", "pp")


def answer_of(tmp_path: Path, *words: str) -> Estimate:
    from planner.cli.explain import priced, read_saved

    plan = tmp_path / "plan.yaml"
    done = planner("estimate", *words, "--save", str(plan), "--quiet", "--force")
    assert done.code in (0, 1), done.err
    return priced(read_saved(plan), "plan")


DENSE = "llama3-8b --hardware dgx-h100 --gpus 32 --global-batch 32 --tp 2 --cp 2 --pp 2 --sequence-parallel"
EXPERTS = (
    "qwen3-30b-a3b --hardware dgx-h100 --gpus 32 --global-batch 64 --tp 2 --pp 2 --ep 8 --sequence-parallel"
)
WIDE = "qwen3-30b-a3b --hardware dgx-h100 --gpus 32 --global-batch 64 --tp 1 --ep 16"


@every("words", [DENSE, EXPERTS])
def test_every_place_is_taken_once_and_strides_are_those_that_are_priced(words: str, tmp_path: Path) -> None:
    answer = answer_of(tmp_path, *words.split())
    rows = [*rank_rows(answer)]
    assert len({tuple(row[axis] for axis in AXES) for row in rows}) == len(rows) == 32
    assert {(row["node"], row["device"]) for row in rows} == {
        (node, gpu) for node in range(4) for gpu in range(8)
    }
    for group in groups(answer):
        if group.axis in ("tp", "cp", "pp", "ep"):
            others = (
                ("etp", "expert_dp", "pp")
                if group.axis == "ep"
                else [axis for axis in AXES if axis != group.axis]
            )
            members = defaultdict(list)
            for row in rows:
                members[tuple(row[axis] for axis in others)].append(row["rank"])
            for ranks in members.values():
                assert len(ranks) == group.ranks
                assert {later - rank for rank, later in itertools.pairwise(ranks)} == {group.stride}


def test_ranks_counted_by_hand(tmp_path: Path) -> None:
    rows = [*rank_rows(answer_of(tmp_path, *DENSE.split()))]
    assert rows[13] == {"rank": 13, "node": 1, "device": 5, "tp": 1, "cp": 0, "dp": 3, "pp": 0}
    assert rows[18] == {"rank": 18, "node": 2, "device": 2, "tp": 0, "cp": 1, "dp": 0, "pp": 1}


def test_experts_that_leave_the_fast_links_are_told(tmp_path: Path) -> None:
    assert leaving(answer_of(tmp_path, *DENSE.split())) == ()
    wide = answer_of(tmp_path, *WIDE.split())
    assert leaving(wide) == ("ep, 16 ranks, leaves the 8 accelerators that nvlink4 joins",)
    assert ranks_page(wide)[-1] == "Mind: ep, 16 ranks, leaves the 8 accelerators that nvlink4 joins."


def test_a_group_of_six_that_straddles_two_nodes_is_told(tmp_path: Path) -> None:
    """Ranks 6 to 11 lie on nodes 0 and 1, although six are fewer than the eight of a node."""
    words = "llama2-13b --hardware a2-highgpu-8g --gpus 24 --global-batch 24 --seq-len 4096 --tp 1 --pp 4"
    answer = answer_of(tmp_path, *words.split())
    (data,) = (group for group in groups(answer) if group.axis == "dp")
    assert (data.ranks, data.stride, data.domain) == (6, 1, float("inf"))
    nodes = {row["node"] for row in rank_rows(answer) if row["pp"] == 1}
    assert nodes == {0, 1}


def test_the_command_has_all_ranks(tmp_path: Path) -> None:
    answer_of(
        tmp_path,
        *DENSE.replace("--gpus 32", "--gpus 128").replace("--global-batch 32", "--global-batch 64").split(),
    )
    plan = str(tmp_path / "plan.yaml")
    assert len(planner("explain", plan, "--ranks", "--format", "csv").out.splitlines()) == 129
    assert [row["rank"] for row in planner("explain", plan, "--ranks", "--format", "json").json["ranks"]] == [
        *range(128)
    ]
    assert "The first 64 of 128 ranks" in planner("explain", plan, "--ranks").out
