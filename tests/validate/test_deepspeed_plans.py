"""DeepSpeed's own config and engines take every legal plan as it is meant."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from planner.runtimes.deepspeed import ENTRY
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from tests.validate.ask import Verdict, counted, judged, ours_alone, refusals
from tests.validate.known_rules import UNSEEN
from tests.validate.numerics import hub_says
from tests.validate.random_plans import stage_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("deepspeed", "no interpreter with deepspeed: make validate"),
]


NO_KERNEL = ("This op had not been implemented on CPU backend", "Unable to JIT load the async_io op")
"""Where its engine cannot be built without a GPU, or without the library that reads disks."""

ONCE = "ZeRO parameter intra parallel group is already initialized"
"""A second engine with second shards in the one process that judges all plans."""


def zero_of(verdict: Verdict) -> dict[str, Any]:
    """Return what is written for DeepSpeed about ZeRO."""
    return json.loads((verdict.command.files or {})["ds_config.json"]).get("zero_optimization", {})


def unbuilt(verdict: Verdict) -> str:
    """Say why this machine cannot build the engine, by what is written; empty where it can."""
    said, zero = str(verdict.answer.get("refused", "")), zero_of(verdict)
    if ONCE in said and zero.get("zero_hpz_partition_size", 1) > 1:
        return "second shards again"
    if not any(words in said for words in NO_KERNEL):
        return ""
    tiers = (zero.get(name, {}).get("device") for name in ("offload_param", "offload_optimizer"))
    if "nvme" in tiers:
        return "disk"
    return "low bits" if zero.get("zero_quantized_weights") or zero.get("zero_quantized_gradients") else ""


def test_legal_plans_are_taken_as_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = judged(ENTRY, "check_deepspeed.py", legal=True, folder=tmp_path)
    reasons = Counter(map(unbuilt, verdicts))
    with capsys.disabled():
        print(f"\nnot built without a GPU: {dict(reasons)}")  # noqa: T201
    assert reasons[""] >= 0.8 * len(verdicts)
    verdicts = [verdict for verdict in verdicts if not unbuilt(verdict)]
    assert refusals(verdicts) == []
    for verdict in verdicts:
        derived, plan = verdict.answer["derived"], verdict.case.plan
        assert derived["ignored"] == []
        assert derived["numbers"] == hub_says(verdict.case.job.model)
        assert derived["micro_batch"] == plan.micro_batch
        assert derived["accumulation"] == plan.num_microbatches
        assert derived["zero"] == plan.zero
        assert derived["tp"] == plan.tp
        assert derived.get("pipe", 1) == plan.pp
        assert derived.get("ep", 1) == plan.ep
        assert derived["ranks_of_batch"] == plan.dp * plan.tp
        assert (derived["offload"] == "cpu") == (read_offload(OFFLOADS, plan.offload).states == "host")
        if plan.pp > 1:
            assert derived["stage_params"] == stage_params(plan, verdict.case.job.model)
        if "engine" in derived:
            assert derived["engine"]["dp"] == plan.dp


def test_what_deepspeed_refuses_we_refuse_and_what_only_we_refuse_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = judged(ENTRY, "check_deepspeed.py", legal=False, folder=tmp_path)
    with capsys.disabled():
        print(counted(verdicts))  # noqa: T201
    assert refusals(verdicts)
    assert ours_alone(verdicts) <= set(UNSEEN[ENTRY.name])
