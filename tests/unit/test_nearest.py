"""What is said where nothing fits is true: more accelerators fit, and so does each single change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.report.search_page import nothing_fits, untrainable
from planner.runtimes import runtimes
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.search.settings import OpenSettings
from planner.units import GIB
from tests.unit.cost_jobs import any_runtime, cluster

RUNTIME = replace(any_runtime(), schedules=("1f1b",), recomputes=("none", "full"), offloads=("none",))


def request(gpus: int = 1, **fields: Any) -> SearchRequest:
    work = {"seq_len": 2048, "global_batch": 32} | fields.pop("workload", {})
    return SearchRequest(
        load_model("llama3-8b"), (cluster("dgx-h100"),), (gpus,), Workload(**work), (RUNTIME,), **fields
    )


def nearest(result: SearchResult) -> dict[str, Any]:
    assert result.plans == ()
    assert result.nearest is not None
    return dict(result.nearest)


def test_eight_billion_parameters_do_not_fit_on_one_accelerator() -> None:
    """Weights, gradients and Adam are 18 bytes for each: 145 GB against 80."""
    told = nearest(search(request()))
    assert told["missing_gib"] == pytest.approx(
        told["peak_gib"] - cluster("dgx-h100").pool.accelerator.memory_usable / GIB
    )
    assert told["missing_gib"] > 18 * 8.03e9 / GIB - 80
    assert told["plan"]["recompute"] == "full"


def test_the_accelerators_that_would_do_do() -> None:
    told = nearest(search(request()))
    assert search(request(told["gpus"])).plans
    assert not search(request(told["gpus"] // 2)).plans


def test_each_change_alone_is_enough() -> None:
    told = nearest(search(request()))
    changes = {"--method lora": {"method": "lora"}, "--method qlora": {"method": "qlora"}}
    changes |= {"--optimizer adam8bit": {"optimizer": "adam8bit"}, "--seq-len 1024": {"seq_len": 1024}}
    for text, fields in changes.items():
        assert bool(search(request(workload=fields)).plans) == (text in told["changes"]), text
    assert "--method lora" in told["changes"]


def test_a_degree_that_stands_in_the_way_is_named() -> None:
    told = nearest(search(request(gpus=8, fixed={"tp": 1, "pp": 1, "zero": 0})))
    assert "leave --tp 1 to the search" in told["changes"]
    assert "leave --zero 0 to the search" in told["changes"]


def test_nothing_legal_at_all_is_said_too() -> None:
    told = nearest(search(request(gpus=8, fixed={"tp": 3})))
    assert told["plan"] is told["peak_gib"] is told["missing_gib"] is None
    assert told["changes"] == ["leave --tp 3 to the search"]
    assert told["breaks"] is None


def test_a_rule_of_the_model_that_no_plan_obeys_is_told_in_words() -> None:
    megatron = runtimes()["megatron-lm"]
    asked = replace(request(gpus=8), model=load_model("gemma3-4b"), runtimes=(megatron,))
    result = search(asked)
    broken = nearest(result)["breaks"]
    assert [fault["rule"] for fault in broken["rules"]] == ["model-expressible", "numerics-have-flags"]
    assert "4 norms in a layer" in broken["rules"][0]["found"]
    line, title, _ = nothing_fits(result)
    assert str(line).startswith("Megatron-LM cannot train this model: 4 norms in a layer")
    assert "Ask for --runtime deepspeed or --runtime fsdp or --runtime megatron-bridge." in str(line)
    assert str(title).startswith("Any one of these changes makes it run")


def test_rules_are_told_only_where_no_plan_obeys_them_all() -> None:
    assert nearest(search(request()))["breaks"] is None


def test_where_the_encoder_stands_in_the_way_it_says_who_trains_the_language_model() -> None:
    breaks = {"title": "Megatron-LM", "model": "an encoder", "able": [], "able_alone": ["deepspeed", "fsdp"]}
    told = untrainable(breaks)[1]
    assert told.startswith("No other runtime here can either. Without its encoder")
    assert told.endswith("--runtime deepspeed or --runtime fsdp can.")


def test_of_several_clusters_the_one_that_misses_least_is_told() -> None:
    both = (cluster("dgx-a100-40gb"), cluster("dgx-h200"))
    asked = replace(request(), clusters=both, model=load_model("llama3-70b"))
    result = search(asked)
    told = nearest(result)
    usable = cluster("dgx-h200").pool.accelerator.memory_usable / GIB
    assert told["cluster"] == "dgx-h200"
    assert told["missing_gib"] == pytest.approx(told["peak_gib"] - usable)
    grown = told["remedies"][0]
    assert grown["change"] == f"--gpus {told['gpus']} --hardware dgx-h200"
    assert search(replace(asked, gpu_counts=(told["gpus"],), clusters=both[1:])).plans
    assert "The smallest on dgx-h200 needs" in str(nothing_fits(result, asked)[0])


def test_the_smallest_plan_is_told_with_the_settings_that_need_least() -> None:
    """Overlap of tensor parallelism, which every plan of the scan has, needs buffers."""
    megatron = runtimes()["megatron-lm"]
    pinned = {"tp": 8, "pp": 1, "zero": 0, "micro_batch": 1, "recompute": "full", "offload": "none"}
    asked = replace(request(gpus=8, fixed=pinned), runtimes=(megatron,), model=load_model("llama3-70b"))
    open_to_all = replace(asked, settings=OpenSettings())
    assert nearest(search(open_to_all))["peak_gib"] == nearest(search(asked))["peak_gib"]
