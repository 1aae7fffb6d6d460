"""A shared expert beside the messages of routed experts: seconds and bytes by hand, rules, search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import PricedLayer, priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.settings import settings_of, with_value
from planner.formulas.collectives import ring_seconds
from planner.inputs.load import load_model
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.settings import OpenSettings, variants
from tests.cases import every
from tests.unit.cost_jobs import GQA, job, model, plan_of, runtime

SEQ, HIDDEN, INNER = 2048, 2048, 8192
SHARED = model(
    "shared",
    {
        "a": {
            "mixer": GQA,
            "ffn": {"kind": "moe", "experts": 8, "topk": 2, "inner": 2048, "shared_inner": INNER},
        }
    },
    "4 a",
)
MESSAGES: dict[str, Any] = {"ep_traffic": 0.0, "all_to_all_traffic": 0.0, "all_to_all_overlapped": 0.2}
"""Traits of messages that no kernel sorts or packs, a fifth of which nothing hides."""


def layer(beside: bool, **fields: Any) -> tuple[PricedLayer, Pricer]:
    work = job(SHARED, fields.pop("gpus", 8))
    plan = plan_of(work, **fields)
    traits = {**MESSAGES, "overlaps_shared_expert": beside, "tp_exposed": 0.25}
    price = Pricer(case_of(plan, work, runtime(**traits)), plan)
    return priced_layer(price, "a"), price


def test_each_message_is_hidden_by_the_product_beside_it() -> None:
    """A dispatch by the first product and its activation, a combine by the second."""
    (apart, _), (beside, _) = layer(False, ep=8), layer(True, ep=8)
    alone = apart.exchanges.ep.forward / 2
    shared = [one for one in beside.operators if one.module == "shared_experts"]
    into, out = shared[:-1], shared[-1]
    for way in ("forward", "backward"):
        windows = (total(into, way), getattr(out, way))
        left = [max(0.2 * alone, alone - float(window)) for window in windows]
        assert getattr(beside.exchanges.ep, way) == pytest.approx(sum(left))
    assert beside.exchanges.ep.forward < apart.exchanges.ep.forward
    assert beside.exchanges.ep.forward_sent == apart.exchanges.ep.forward_sent


def test_its_gathered_input_is_kept_and_its_own_messages_overlap_with_no_product() -> None:
    degrees = {"tp": 4, "ep": 4, "etp": 1, "sequence_parallel": True}
    (apart, price), (beside, _) = layer(False, **degrees), layer(True, **degrees)
    more = total(beside.operators, "saved") - total(apart.operators, "saved")
    assert more == 2 * SEQ * HIDDEN
    once = 3 / 4 * 2 * SEQ * HIDDEN
    assert apart.exchanges.tp.backward_sent - beside.exchanges.tp.backward_sent == pytest.approx(once)
    message = ring_seconds(2 * SEQ * HIDDEN, 4, 1.0, price.case.tensor_tiers)
    assert beside.exchanges.tp.forward - apart.exchanges.tp.forward == pytest.approx(2 * 0.75 * message)


@every("degrees", [{"tp": 1}, {"tp": 4, "sequence_parallel": True}])
def test_nothing_changes_where_no_token_leaves(degrees: dict[str, Any]) -> None:
    (apart, _), (beside, _) = layer(False, **degrees), layer(True, **degrees)
    assert beside.exchanges == apart.exchanges
    assert beside.operators == apart.operators


def with_settings(chosen: Runtime, values: dict[str, str]) -> Runtime:
    for name, value in values.items():
        chosen = with_value(chosen, name, value)
    return chosen


def test_rules_forbid_what_megatron_refuses() -> None:
    task = job(load_model("moonlight-16b-a3b"), 16)
    plan = plan_of(task, ep=8, etp=1, zero=1)
    core = runtimes()["megatron-lm"]

    def broken(values: dict[str, str], **changes: Any) -> set[str]:
        chosen = with_settings(core, {"shared_expert_overlap": "on"} | values)
        return {fault.rule for fault in estimate(replace(plan, **changes), task, chosen).violations}

    assert broken({}) == set()
    assert broken({"expert_overlap": "on"}) == {"shared-overlap-in-one-batch"}
    assert broken({}, recompute="selective:shared_experts") == {"shared-overlap-keeps-inputs"}
    assert broken({}, recompute="full") == set()
    assert "shared-overlap-outside-graphs" in broken({"cuda_graphs": "passes"})
    assert broken({}, recompute="selective:shared_experts", ep=1.0) == set()


def test_a_search_prices_plans_with_either_overlap() -> None:
    """The two exclude each other: neither hides the plans of the other."""
    task, core = job(load_model("moonlight-16b-a3b"), 16), runtimes()["megatron-lm"]
    scanned = variants(task, core, OpenSettings().of(task, core))
    values = [settings_of(task, one.runtime) for one in scanned]
    assert [(each["expert_overlap"], each["shared_expert_overlap"]) for each in values] == [
        ("off", "on"),
        ("on", "off"),
    ]


def test_a_search_takes_it_where_it_gains() -> None:
    """GLM-4.5-Air over several nodes: Megatron-Bridge's own recipe of it has the overlap on."""
    task, core = job(load_model("glm-4.5-air"), 64, global_batch=256), runtimes()["megatron-lm"]
    pinned = {"cp": 1, "ep": 16, "pp": 2, "schedule": "1f1b"}
    asked = SearchRequest(
        task.model, (task.hardware,), (64,), task.workload, (core,), pinned, top=1, settings=OpenSettings()
    )
    best = search(asked).plans[0]
    assert settings_of(task, best.runtime)["shared_expert_overlap"] == "on"
    off = with_settings(core, settings_of(task, best.runtime) | {"shared_expert_overlap": "off"})
    assert best.step < 0.99 * estimate(best.plan, task, off).step
