"""The lead of an answer is earned: kinds of plan that no measured run has must gain more than their doubt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from planner.cost.kinds import (
    ELSEWHERE_WIDER,
    KINDS,
    backed_rows,
    unmeasured_kinds,
    unseen_doubt,
    unusual_kinds,
)
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.layout import layout
from planner.report.search_page import held_back
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search import earned
from planner.search.guard import Ranking
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.settings import OpenSettings
from planner.search.ties import TIE
from tests.cases import every
from tests.unit.cost_jobs import MODELS, cluster

JOB, OTHER = object(), object()
FAR = ("experts spread beyond the fast links",)
HOSTED = ("optimizer states on the host",)


@dataclass(frozen=True)
class Priced:
    """A plan with its band."""

    step: float
    plan: Plan
    error_band: float | None = 0.42
    band_shared: float = 1.0
    job: Any = JOB
    runtime: Any = None
    oom_probability: float = 0.0


class Unplayed:
    """A guard that ranks plans by their prices."""

    @staticmethod
    def ranked(plans: Any, most: int, key: object) -> Any:
        return sorted(plans, key=lambda plan: plan.step)[:most]


SPREAD, HOST, NEAR, SAME = Plan(ep=16.0), Plan(offload="optimizer"), Plan(ep=8.0), Plan(micro_batch=2.0)


@pytest.fixture
def _made_up_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experts over 16 ranks are unusual; neither they nor states on the host have a run."""

    def far(plan: Plan, *_: object) -> tuple[str, ...]:
        return FAR * bool(plan.ep > 8)

    def unseen(plan: Plan, *_: object) -> tuple[str, ...]:
        return FAR * bool(plan.ep > 8) + HOSTED * (plan.offload != "none")

    (_, whole), (_, added) = earned.DOUBTS
    monkeypatch.setattr(earned, "DOUBTS", ((far, whole), (unseen, added)))


def led(*ranked: Any, others: Any, variants: Any = None) -> Any:
    ranking = Ranking(ranked, variants or ((),) * len(ranked))
    guard: Any = Unplayed()
    key: Any = None
    return earned.with_earned_lead(ranking, others, lambda one: one.step, guard, key)


@pytest.mark.usefixtures("_made_up_kinds")
@pytest.mark.parametrize(
    ("lead", "other", "leads"),
    [
        (Priced(1.0, SPREAD), Priced(1.41, NEAR), "other"),
        (Priced(1.0, SPREAD), Priced(1.43, NEAR), "lead"),
        (Priced(1.0, HOST), Priced(1.21, NEAR), "other"),
        (Priced(1.0, HOST), Priced(1.23, NEAR), "lead"),
        (Priced(1.0, HOST), Priced(1.05, SPREAD), "lead"),
        (Priced(1.0, HOST, None), Priced(1.05, NEAR), "lead"),
        (Priced(1.0, HOST), Priced(1.05, NEAR, job=OTHER), "lead"),
        (Priced(1.0, NEAR), Priced(1.001, SAME), "lead"),
    ],
)
def test_a_kind_without_a_run_leads_only_where_it_gains_more_than_its_doubt(
    lead: Any, other: Any, leads: str
) -> None:
    """The doubt is the whole band of what engineers avoid, of others what the kind adds: 42 less 19%."""
    assert (
        unseen_doubt(0.42) == pytest.approx(0.42 - 0.42 / ELSEWHERE_WIDER) == pytest.approx(0.229, abs=5e-4)
    )
    third: Any = Priced(2.0, Plan(tp=2.0))
    found = led(lead, third, others=(lead, other, third))
    assert found.plans == ((other, lead) if leads == "other" else (lead, third))


@pytest.mark.usefixtures("_made_up_kinds")
def test_what_earned_its_lead_does_not_lose_it_to_another_doubt() -> None:
    """Of two kinds the whole band counts first, and then what a kind adds."""
    spread, hosted, plain = Priced(1.0, SPREAD), Priced(1.1, HOST), Priced(1.2, NEAR)
    assert led(spread, hosted, plain, others=(spread, hosted, plain)).plans[0] is plain
    far = Priced(1.36, NEAR)
    assert led(spread, hosted, far, others=(spread, hosted, far)).plans[0] is hosted


@pytest.mark.usefixtures("_made_up_kinds")
def test_of_two_clusters_the_one_leads_whose_own_lead_is_best() -> None:
    hosted, plain = Priced(1.0, HOST), Priced(1.1, NEAR)
    elsewhere = Priced(1.05, NEAR, job=OTHER)
    found = led(hosted, elsewhere, plain, others=(hosted, plain, elsewhere))
    assert found.plans == (elsewhere, hosted, plain)
    slower = Priced(1.12, NEAR, job=OTHER)
    assert led(hosted, slower, others=(hosted, plain, slower)).plans == (plain, slower)


@pytest.mark.usefixtures("_made_up_kinds")
def test_a_lead_from_among_the_variants_of_a_mesh_keeps_the_others() -> None:
    lead, own, usual = Priced(1.0, SPREAD), Priced(1.025, NEAR), Priced(1.03, Plan(ep=8.0, micro_batch=2.0))
    near = Priced(1.02, Plan(ep=8.0, offload="optimizer"))
    found = led(lead, own, others=(lead, own, usual), variants=((), (usual,)))
    assert found.plans[0] is own
    found = led(lead, near, others=(lead, near, usual), variants=((), (usual,)))
    assert (found.plans, found.variants) == ((usual, lead), ((near,), ()))


@pytest.mark.usefixtures("_made_up_kinds")
def test_what_all_plans_have_in_common_need_not_be_earned() -> None:
    """A band that is lent is as much wider for the one plan as for the other."""
    gains = ELSEWHERE_WIDER * 0.1
    for shared, first in ((1.0, SAME), (ELSEWHERE_WIDER, HOST)):
        lead, usual = (Priced(step, plan, gains * 2, shared) for step, plan in ((1.0, HOST), (1.15, SAME)))
        assert led(lead, usual, others=(lead, usual)).plans[0].plan == first


@pytest.mark.usefixtures("_made_up_kinds")
def test_a_faster_plan_of_the_same_mesh_keeps_a_row_of_its_own() -> None:
    lead, usual = Priced(1.0, HOST), Priced(1.05, SAME)
    found = led(lead, others=(lead, usual), variants=((usual,),))
    assert found.plans == (usual,)
    other: Any = Priced(1.2, Plan(tp=2.0))
    assert led(lead, other, others=(lead, usual), variants=((usual,), ())).plans == (usual, lead)


@every(
    ("runtime", "hardware", "backed"),
    [
        ("megatron-bridge", "dgx-h100", True),
        ("megatron-lm", "hgx-h800", True),
        ("megatron-lm", "dgx-h200", True),
        ("megatron-lm", "rtx4090-8-pcie", False),
    ],
)
def test_runs_of_who_lends_a_band_stand_behind_kinds_of_plan(
    runtime: str, hardware: str, backed: bool
) -> None:
    """Runs on H100 spread experts over nodes; H800 and H200, which have none, are the same chip."""
    job = Job(MODELS["experts"], cluster(hardware), 64, Workload(seq_len=4096, global_batch=512))
    plan = Plan(dp=64, ep=32, zero=1, zero_shards=64, num_microbatches=8)
    assert (FAR[0] not in unmeasured_kinds(plan, job, runtimes()[runtime])) == backed


def test_kinds_of_a_batch_are_those_of_its_plans() -> None:
    runtime = runtimes()["megatron-bridge"]
    work = Workload(seq_len=8192, global_batch=512)
    seen = set[str]()
    for name, hardware in product(("dense", "experts"), ("dgx-h100", "gb300-nvl72", "dgx-b200")):
        job = Job(MODELS[name], cluster(hardware), 256, work)
        degrees = np.array(list(product((1, 2, 16), (1, 2), (1, 8, 16, 128), (1, 4)))).T.astype(float)
        tp, cp, ep, micro_batch = degrees
        for zero, offload, recompute in product(
            (1, 3), ("none", "optimizer", "activations:4"), ("none", "full")
        ):
            many = Plan(
                tp=tp, cp=cp, ep=ep, micro_batch=micro_batch, dp=256 / (tp * cp),
                zero_shards=256 / tp, zero=zero, offload=offload, recompute=recompute,
            )  # fmt: skip
            found = [unmeasured_kinds(many.row((row,)), job, runtime) for row in range(len(tp))]
            assert backed_rows(many, job, runtime).tolist() == [not kinds for kinds in found]
            seen |= {kind for kinds in found for kind in kinds}
    assert len(seen) > len(KINDS) / 2


@pytest.mark.parametrize(
    ("model", "hardware", "gpus", "batch", "runtime", "fixed"),
    [
        ("llama3-70b", "dgx-h100", 64, 1024, "megatron-lm", {"offload": "none", "cp": 1}),
        ("llama3-8b", "dgx-h100", 8, 128, "megatron-bridge", {"offload": "none"}),
        ("qwen3-30b-a3b", "gb300-nvl72", 8, 512, "megatron-bridge", {"offload": "none", "ep": 8}),
        ("qwen3-30b-a3b", "dgx-b300", 8, 256, "megatron-bridge", {"offload": "none", "ep": 4}),
    ],
)
def test_a_lead_that_runs_stand_behind_is_the_best_of_such(
    model: str, hardware: str, gpus: int, batch: int, runtime: str, fixed: dict[str, Any]
) -> None:
    """A search that cannot choose the doubtful kinds finds none that is faster by more than a tie."""
    work = Workload(seq_len=8192, global_batch=batch)
    own = runtimes()[runtime]
    kept = {axis: degree for axis, degree in fixed.items() if axis == "cp"}
    free = SearchRequest(load_model(model), (load_hardware(hardware),), (gpus,), work, (own,), fixed=kept)
    pinned = SearchRequest(free.model, free.clusters, (gpus,), work, (own,), fixed=fixed)
    found = search(free)
    lead, *_ = found.plans
    backed = [plan for plan in search(pinned).plans if earned.is_backed(plan)]
    assert earned.is_backed(lead)
    assert lead.step <= min(plan.step for plan in backed) * (1 + TIE) * (1 + TIE)
    assert all(plan.step * (1 + TIE) >= lead.step for plan in found.plans)
    for plan in found.on_paper:
        doubt, kinds = earned.doubt_of(plan)
        assert kinds
        assert plan.step * (1 + doubt) >= lead.step > plan.step * (1 + TIE)


FEW = "sequences split below 4,096 tokens"


@every(
    ("model", "hardware", "runtime", "plan", "kinds"),
    [
        ("dense", "dgx-h100", "megatron-lm", Plan(cp=2.0), ()),
        ("dense", "gb300-nvl72", "megatron-bridge", Plan(cp=2.0), ()),
        ("dense", "dgx-h100", "torchtitan", Plan(cp=2.0), (FEW,)),
        ("dense", "dgx-h100", "torchtitan", Plan(cp=1.0), ()),
        ("experts", "dgx-b300", "megatron-bridge", Plan(ep=64.0), ()),
        ("experts", "gb300-nvl72", "megatron-bridge", Plan(ep=64.0), ()),
        ("experts", "gb300-nvl72", "megatron-bridge", Plan(ep=128.0), FAR),
    ],
)
def test_a_kind_that_some_run_of_the_core_is_of_has_nothing_to_earn(
    model: str, hardware: str, runtime: str, plan: Plan, kinds: tuple[str, ...]
) -> None:
    """Of splits of a sequence any chip's runs count; of links, not those of a node for a whole rack."""
    work = Workload(seq_len=4096, global_batch=512)
    one = Job(MODELS[model], cluster(hardware), 256, work)
    assert unusual_kinds(plan, one, runtimes()[runtime]) == kinds


def test_a_search_tells_what_it_held_back() -> None:
    """DeepSeek-V3 on 2,048 GB300: experts over two NVLink domains gain a few percent, and no run has them."""
    model = load_model("deepseek-v3")
    work = Workload(seq_len=4096, global_batch=16384, precision="mxfp8")
    request = SearchRequest(
        model, (load_hardware("gb300-nvl72"),), (2048,), work, (runtimes()["megatron-bridge"],),
        fixed={"tp": 1, "etp": 1, "cp": 1, "recompute": "none", "offload": "none"}, settings=OpenSettings(),
    )  # fmt: skip
    found = search(request)
    lead, faster = found.plans[0], found.on_paper[0]
    assert lead.step <= min(plan.step for plan in found.plans) * (1 + TIE)
    assert not unusual_kinds(lead.plan, lead.job, lead.runtime)
    assert unusual_kinds(faster.plan, faster.job, faster.runtime) == FAR
    assert faster.step < lead.step < faster.step * (1.0 + (faster.error_band or 0.0))
    (line,) = held_back(found)
    assert layout(faster.plan) in line
    assert line.startswith("Faster on paper by ")
    assert found.measured is None
