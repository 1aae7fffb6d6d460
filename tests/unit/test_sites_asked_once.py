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

    def counted(request: SearchRequest, beside: bool = True) -> optimise.SearchResult:
        asked[tuple(sorted(request.fixed.items())), request.memory_limit, request.gpu_counts] += 1
        result = plain(request, beside=beside)
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
        )
    )
    assert {one.sync.name for one in (*found.ranked, *found.others)} == set(names)
    assert asked
    assert set(asked.values()) == {1}
