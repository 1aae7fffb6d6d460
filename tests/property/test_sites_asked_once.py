"""A search over sites asks each question once, and of each search no more than it uses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from planner.inputs.load import load_model
from planner.inputs.sites import load_sites
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search import optimise
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.search.sites import inside, joint
from planner.search.sites.rank import search_sites
from planner.search.sites.request import SitesRequest
from planner.techniques.sync import SYNCS

TEXT = """name: two
sites:
  - {name: a, cluster: dgx-h100, gpus: 8}
  - {name: b, cluster: dgx-h100, gpus: 8}
links:
  - {between: [a, b], bandwidth: 10 Gbit/s, round_trip: 60 ms}
"""


def test_no_search_is_asked_twice_nor_for_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[tuple[object, ...]] = Counter()
    plain = optimise.found_plans

    def counted(request: SearchRequest, advise: bool = True) -> SearchResult:
        asked[tuple(sorted(request.fixed.items())), request.memory_limit, request.gpu_counts] += 1
        result = plain(request, advise)
        assert not result.baselines
        assert result.fewer is None
        return result

    for module in (inside, joint):
        monkeypatch.setattr(module, "found_plans", counted)
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    profile, clusters = load_sites(str(path))
    names = ("ddp", "stages", "diloco", "eager", "co2")
    found = search_sites(
        SitesRequest(
            profile=profile,
            clusters=clusters,
            model=load_model("llama3-8b"),
            workload=Workload(seq_len=1024, global_batch=64),
            runtime=runtimes()["torchtitan"],
            syncs=tuple(SYNCS[name] for name in names),
            steps=(100, 500),
            fixed={"cp": 1},
        )
    )
    assert {one.sync.name for one in (*found.ranked, *found.others)} == set(names)
    assert asked
    assert set(asked.values()) == {1}


def test_a_plan_that_ties_is_not_searched_for_and_slow_links_take_one_stage_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    profile, clusters = load_sites(str(path))
    request = SitesRequest(
        profile=profile,
        clusters=clusters,
        model=load_model("llama3-8b"),
        workload=Workload(seq_len=1024, global_batch=64),
        runtime=runtimes()["torchtitan"],
        syncs=(SYNCS["co2"],),
        steps=(100,),
        fixed={"cp": 1, "schedule": "1f1b", "vpp": 1},
    )
    plans = inside.Plans(request)
    least = plans.with_room(1.0, runner=False)
    assert least is not None
    searched = plans.searched
    for copies in (0.5, 1.0):
        assert plans.with_room(copies, runner=False) == least
    assert plans.searched == searched
    for copies in (4.0,):  # what is taken ties with what a search of its own finds
        (own,) = {one.step for one in (inside.Plans(request).with_room(copies, False) or {}).values()}
        (taken,) = {one.step for one in (plans.with_room(copies, False) or {}).values()}
        assert own * 0.99 <= taken <= own * inside.TIE

    counts: list[object] = []
    plain = joint.found_plans

    def counted(asked: SearchRequest, advise: bool = True) -> SearchResult:
        counts.append(asked.fixed["pp"])
        return plain(asked, advise)

    monkeypatch.setattr(joint, "found_plans", counted)
    floor = joint.least_seconds(request)
    assert floor == pytest.approx(64 * 1024 * 4096 * 2 / 1.25e9)  # bf16 activations over 10 Gbit/s, by hand
    for other, tried in ((0.9 * floor, [2]), (1.1 * floor, [2, 4])):
        counts.clear()
        joint.best_joint(request, "stages", other)
        assert counts[:2] == tried
