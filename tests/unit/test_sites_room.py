"""Memory that a method spares is room for a larger plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cost.sites.price import untrained_copies
from planner.inputs.load import load_model
from planner.inputs.sites import load_sites
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search.sites.rank import search_sites
from planner.search.sites.request import SitesRequest
from planner.techniques.sync import SYNCS
from tests.property.test_sites_asked_once import TEXT


def test_what_spes_spares_lets_a_larger_model_train(tmp_path: Path) -> None:
    # arXiv:2602.11543: a node trains its own experts alone, 55 to 35 GB. Mixtral 8x7B takes 18 bytes a
    # parameter, 105 GB on each of eight accelerators, which nobody has; without gradients and moments of half
    # of its 45.1e9 routed parameters 33.8 GB less.
    path = tmp_path / "two.yaml"
    path.write_text(TEXT)
    profile, clusters = load_sites(str(path))
    model = load_model("mixtral-8x7b")
    names = ("local-sgd", "spes")
    found = search_sites(
        SitesRequest(
            profile=profile,
            clusters=clusters,
            model=model,
            workload=Workload(seq_len=1024, global_batch=64),
            runtime=runtimes()["torchtitan"],
            syncs=tuple(SYNCS[name] for name in names),
            steps=(100,),
            asked=True,
            fixed={"tp": 1, "pp": 1, "cp": 1, "ep": 8, "offload": "none", "zero": 3},
        )
    )
    assert found.unfit == ("local-sgd",)
    (way,) = found.ranked
    assert way.price.device_bytes == pytest.approx(-33.8e9, rel=0.01)
    device = clusters["a"].pool.accelerator.memory_usable
    for answer in way.plans.values():
        assert device < answer.peak < device - way.price.device_bytes
    assert untrained_copies(SYNCS["spes"].parts(model, 2)) * 4 * model.params / 8 == pytest.approx(
        -way.price.device_bytes
    )
