"""Where nobody shares states, a plan stands once: with the lowest ZeRO stage that its settings allow."""

from __future__ import annotations

import numpy as np

from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.search.legality import StateNames, once_alone
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from tests.cases import every

STATES = (StateNames(0, "none"), StateNames(1, "none"), StateNames(3, "none"), StateNames(1, "optimizer"))


@every(
    ("legal", "left"),
    [
        ([1, 1, 1, 1], [1, 0, 0, 1]),
        ([0, 1, 1, 1], [0, 1, 0, 1]),
        ([0, 0, 1, 0], [0, 0, 1, 0]),
    ],
)
def test_a_rank_alone_has_the_lowest_legal_stage(legal: list[int], left: list[int]) -> None:
    masks = np.array([legal, legal], dtype=bool).T
    plan = Plan(dp=np.array([1.0, 2.0]), cp=np.array([1.0, 1.0]))
    found = once_alone(plan, masks, STATES, "none")
    assert found[:, 0].tolist() == [bool(one) for one in left]
    assert found[:, 1].tolist() == [bool(one) for one in legal]


def test_a_search_has_plans_without_replicas_where_a_setting_asks_for_sharded_states() -> None:
    runtime = with_value(runtimes()["megatron-bridge"], "low_bit_weights", "alone")
    request = SearchRequest(
        load_model("llama3-8b"),
        (load_hardware("dgx-h100"),),
        (8,),
        Workload(seq_len=4096, global_batch=64, precision="fp8"),
        (runtime,),
        {"tp": 2, "pp": 4},
        top=1,
    )
    (best,) = search_counts(request, advise=False).plans
    assert (best.plan.dp, best.plan.zero) == (1.0, 1)
