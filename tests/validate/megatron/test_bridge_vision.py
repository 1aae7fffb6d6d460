"""Megatron-Bridge's own code builds a model that sees images as it is meant, on every stage.

Needs what `test_bridge_plans` needs.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.cost.stages import ENCODER
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.vision_configs import with_encoder
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge import ENTRY
from tests.unit.test_vision_files import qwen3_vl
from tests.validate.megatron.bridge_runner import Bridge
from tests.validate.megatron.runner import Verdict
from tests.validate.random_plans import Case, priced_params

BRIDGE, MEGATRON = os.environ.get("MEGATRON_BRIDGE", ""), os.environ.get("MEGATRON_LM", "")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (BRIDGE and MEGATRON), reason="MEGATRON_BRIDGE or MEGATRON_LM names no checkout"),
]

PLANS = (
    Plan(dp=16.0, zero=1, zero_shards=16.0, micro_batch=1.0, num_microbatches=4.0),
    Plan(
        tp=4.0, dp=4.0, zero=1, zero_shards=4.0, micro_batch=2.0, num_microbatches=8.0,
        sequence_parallel=True,
    ),
    Plan(
        pp=2.0, vpp=2.0, dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=8.0,
        schedule="interleaved-1f1b", recompute="full", stage_layers=(6, 7, 8, 7),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def bridge() -> Any:
    return Bridge(BRIDGE, MEGATRON)


def judged(bridge: Any, folder: Path, plan: Plan, job: Job, smoke: bool = False) -> Verdict:
    command = ENTRY.command(plan, job, ENTRY.versions[0]) if ENTRY.command else None
    assert command is not None
    file = folder / "train.py"
    file.write_text((command.files or {})["train.py"], encoding="utf-8")
    verdict: Verdict = bridge.judge(file, job.gpus, 9.0, smoke)
    return verdict


@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_stage_builds_its_share_of_megatron_s_own_encoder(
    bridge: Any, tmp_path: Path, sparse: bool
) -> None:
    """Qwen3-VL-8B and -30B-A3B: a rank's weights are those priced, the language model's as without images."""
    model = qwen3_vl(sparse)
    hardware, length = load_hardware("dgx-h100"), {"seq_len": 4096, "global_batch": 64}
    blind = Job(model.model_copy(update={"encoder": None}), hardware, 16, Workload(**length))
    half, ep = model.num_layers // 2, 8.0 if sparse else 1.0
    cut = {"vpp": 1.0, "schedule": "1f1b", "stage_layers": (half - 2, half + 2)}
    plans = (
        replace(PLANS[0], ep=ep),
        replace(PLANS[1], ep=min(ep, 4.0)),
        replace(PLANS[2], ep=ep, **cut),
    )
    for plan, frozen, learns in zip(plans, (False, True, True), (False, True, False), strict=True):
        work = Workload(**length, images=4, freeze_encoder=frozen, train_projector=learns)
        job = Job(model, hardware, 16, work)
        case = case_of(plan, job, ENTRY)
        assert not violations(all_rules(plan, case))
        seen, plain = judged(bridge, tmp_path, plan, job), judged(bridge, tmp_path, plan, blind)
        assert (seen.error, plain.error) == ("", "")
        for name in ("tp", "pp", "vpp", "dp", "zero_shards", "micro_batch", "num_microbatches", "layers"):
            assert seen.derived[name] == plain.derived[name], name
        more = [
            one - other for one, other in zip(seen.derived["params"], plain.derived["params"], strict=True)
        ]
        priced = float(total(priced_layer(Pricer(case, plan), ENCODER).operators, "params"))
        assert more == [priced] + [0] * (int(plan.pp) - 1)
        free = [
            one - other for one, other in zip(seen.derived["trained"], plain.derived["params"], strict=True)
        ]
        learned = float(total(priced_layer(Pricer(case, plan), ENCODER).operators, "trained"))
        assert free == [learned] + [0] * (int(plan.pp) - 1)
        assert (0 < learned < priced) == learns
        assert not seen.derived["fused_rope"]
        assert judged(bridge, tmp_path, plan, job, smoke=True).error == ""


@pytest.mark.parametrize("kind", ["qwen3.5-9b", "qwen3.5-35b-a3b"])
def test_qwen35_is_built_with_its_encoder(bridge: Any, tmp_path: Path, kind: str) -> None:
    """All weights of each stage's rank, gated delta nets and experts among them, are those priced.

    A shared expert's gate is left out there, one row of the width for a layer.
    """
    model, hardware = with_encoder(load_model(kind)), load_hardware("dgx-h100")
    ep = 8.0 if model.expert_kinds else 1.0
    quarter = model.num_layers // 4
    plans = (
        replace(PLANS[0], ep=ep),
        replace(PLANS[1], tp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=4.0, ep=ep),
        replace(PLANS[2], ep=ep, stage_layers=(quarter - 1, quarter, quarter + 1, quarter)),
    )
    for plan, frozen, learns in zip(plans, (False, True, True), (False, False, True), strict=True):
        work = Workload(seq_len=4096, global_batch=64, images=4, freeze_encoder=frozen)
        work = work.model_copy(update={"train_projector": learns})
        job = Job(model, hardware, 16, work)
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY)))
        seen = judged(bridge, tmp_path, plan, job)
        assert seen.error == ""
        free = replace(job, workload=work.model_copy(update={"freeze_encoder": False}))
        rows = [sum(stage) for stage in seen.derived["layers"]]
        rows[-1] += 1 if model.prediction else 0
        row = model.hidden if model.expert_kinds else 0
        wanted = [
            held + row * more
            for held, more in zip(priced_params(ENTRY, Case(free, plan, ())), rows, strict=True)
        ]
        assert seen.derived["params"] == wanted
        encoder = priced_layer(Pricer(case_of(plan, job, ENTRY), plan), ENCODER).operators
        held = float(total(encoder, "params")) - float(total(encoder, "trained"))
        assert seen.derived["trained"] == [wanted[0] - held, *wanted[1:]]
        assert (held > 0.0) == frozen
        assert seen.derived["layers"] == [
            [int(plan.stage_layers[rank + chunk * int(plan.pp)]) for chunk in range(int(plan.vpp))]
            if plan.stage_layers else [model.num_layers]
            for rank in range(int(plan.pp))
        ]  # fmt: skip
        assert not seen.derived["fused_rope"]
        smoke = judged(bridge, tmp_path, plan, job, smoke=True)
        assert smoke.error == ""
        assert smoke.derived["run"]["tokens"] == (4096, 4096)


@pytest.mark.parametrize(
    ("kind", "split"), [("qwen2.5-vl-7b", (6, 7, 8, 7)), ("ministral-3-8b", (8, 9, 9, 8))]
)
def test_the_first_stage_builds_the_encoder_whole(
    bridge: Any, tmp_path: Path, kind: str, split: tuple[int, ...]
) -> None:
    """Rotary positions that turn in three parts are not fused; Ministral's turn as those of text."""
    model = load_model(kind)
    encoder = model.encoder
    assert encoder is not None
    hardware, length = load_hardware("dgx-h100"), {"seq_len": 4096, "global_batch": 64}
    alone = model.model_copy(update={"encoder": None, "variants": ()})
    blind, plans = (
        Job(alone, hardware, 16, Workload(**length)),
        [*PLANS[:2], replace(PLANS[2], stage_layers=split)],
    )
    for plan, frozen, learns in zip(plans, (False, True, True), (False, False, True), strict=True):
        work = Workload(**length, images=4, freeze_encoder=frozen, train_projector=learns)
        job = Job(model, hardware, 16, work)
        assert not violations(all_rules(plan, case_of(plan, job, ENTRY)))
        seen, plain = judged(bridge, tmp_path, plan, job), judged(bridge, tmp_path, plan, blind)
        assert (seen.error, plain.error) == ("", "")
        for name in ("tp", "pp", "vpp", "dp", "zero_shards", "micro_batch", "num_microbatches", "layers"):
            assert seen.derived[name] == plain.derived[name], name
        more = [
            one - other for one, other in zip(seen.derived["params"], plain.derived["params"], strict=True)
        ]
        assert more == [encoder.params] + [0] * (int(plan.pp) - 1)
        held = encoder.params * frozen - learns * sum(one.params for one in encoder.projectors)
        assert sum(seen.derived["params"]) - sum(seen.derived["trained"]) == held
        assert seen.derived["fused_rope"] == (kind == "ministral-3-8b")
        smoke = judged(bridge, tmp_path, plan, job, smoke=True)
        assert smoke.error == ""
        assert smoke.derived["run"]["tokens"] == (4096, 4096)


@pytest.mark.parametrize(
    "kind", ["qwen2.5-vl-7b", "ministral-3-8b", "qwen3-vl-8b", "qwen3-vl-30b-a3b", "qwen3.5-9b"]
)
def test_projectors_alone_learn_on_the_first_stage(bridge: Any, tmp_path: Path, kind: str) -> None:
    """The library freezes all else: what is left of a rank's weights is what the price says learns."""
    known = load_model(kind)
    model, hardware = known if known.encoder else with_encoder(known), load_hardware("dgx-h100")
    ep = 8.0 if model.expert_kinds else 1.0
    plan = replace(PLANS[0], pp=2.0, dp=8.0, zero_shards=8.0, num_microbatches=8.0, ep=ep)
    job = Job(model, hardware, 16, Workload(seq_len=4096, global_batch=64, images=4, method="projector"))
    case = case_of(plan, job, ENTRY)
    assert not violations(all_rules(plan, case))
    seen = judged(bridge, tmp_path, plan, job)
    assert seen.error == ""
    learned = float(total(priced_layer(Pricer(case, plan), ENCODER).operators, "trained"))
    assert model.encoder is not None
    assert learned == sum(one.params for one in model.encoder.projectors)
    assert seen.derived["trained"] == [learned, 0.0]
    assert judged(bridge, tmp_path, plan, job, smoke=True).error == ""
