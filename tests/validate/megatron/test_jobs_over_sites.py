"""Megatron-LM takes the files of one job over sites as they are meant: its own groups keep to the sites.

Needs what `test_megatron_plans` does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import planner
from tests.validate.megatron.capture import make_recorder, started
from tests.validate.megatron.runner import Megatron

CHECKOUT = os.environ.get("MEGATRON_LM", "")
SITE = 16
SITES = f"""\
name: three
sites:
  - {{name: a, cluster: dgx-h100, gpus: {SITE}}}
  - {{name: b, cluster: dgx-h100, gpus: {SITE}}}
  - {{name: c, cluster: dgx-h100, gpus: {SITE}}}
links:
  - {{between: [a, b], bandwidth: 400 Gbit/s, round_trip: 5 ms}}
  - {{between: [b, c], bandwidth: 400 Gbit/s, round_trip: 5 ms}}
  - {{between: [a, c], bandwidth: 400 Gbit/s, round_trip: 5 ms}}
"""

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not CHECKOUT, reason="MEGATRON_LM names no checkout of Megatron-LM"),
    pytest.mark.skipif(
        bool(os.environ.get("MEGATRON_BRIDGE")), reason="stand-ins for Megatron-Bridge would be in the way"
    ),
]


@pytest.fixture(scope="module")
def megatron() -> Any:
    return Megatron(CHECKOUT)


def site_of(rank: int) -> int:
    return rank // SITE


@pytest.mark.parametrize("axis", ["data", "stages"])
def test_groups_keep_to_the_sites(megatron: Any, tmp_path: Path, axis: str) -> None:
    (tmp_path / "three.yaml").write_text(SITES)
    out = tmp_path / "run"
    # fmt: off
    asked = ("--across", axis, "--runtime", "megatron-lm", "--tp", "2", "--zero", "1", "--cp", "1",
             "--micro-batch", "1", "--recompute", "none", "--seq-len", "4096", "--global-batch", "96")
    # fmt: on
    islands = ("--sync", "ddp", "--zero-shards", "8")  # of a site, by tensor parallelism
    sync = islands if axis == "data" else ("--sync", "stages")
    hardware = ("--hardware", str(tmp_path / "three.yaml"))
    done = planner("search", "llama3-8b", *hardware, *asked, *sync, "--emit", str(out))
    assert done.code == 0, done.err
    start = started(out / "train.sh", make_recorder(tmp_path), {"NODE_RANK": "3"})
    assert start.environment["NCCL_ALLNET_ENABLE"] == "1"
    assert start.arguments[start.arguments.index("--node-rank") + 1] == "3"
    assert "--rdzv-backend" not in start.arguments
    verdict = megatron.judge(start, 3 * SITE, 9.0)
    assert verdict.error == ""
    read = verdict.derived
    assert read["world"] == 3 * SITE
    ranks = megatron.state.RankGenerator(
        tp=read["tp"], ep=1, dp=read["dp"], pp=read["pp"], cp=1, order="tp-cp-ep-dp-pp"
    )
    groups = [*ranks.get_ranks("tp")]
    if axis == "stages":
        assert read["pp"] % 3 == 0
        groups += [*ranks.get_ranks("dp"), *ranks.get_ranks("tp-dp")]  # all ranks of a stage are at one site
        assert any(len({site_of(rank) for rank in group}) == 3 for group in ranks.get_ranks("pp"))
    else:
        assert (read["pp"], read["distributed_optimizer"]) == (1, True)
        assert read["dp"] // read["zero_shards"] == 3
        # `parallel_state.py` cuts the ranks of a data-parallel group into as many consecutive instances.
        each = read["zero_shards"]
        groups += [
            group[start : start + each]
            for group in ranks.get_ranks("dp")
            for start in range(0, len(group), each)
        ]
    assert all(len({site_of(rank) for rank in group}) == 1 for group in groups)
