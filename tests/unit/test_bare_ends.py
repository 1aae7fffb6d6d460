"""Stages without layers: the embedding or the loss stands alone, a layer each as Megatron-core counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.api import estimate_plan, load_hardware, load_model, search_plans, simulate_plan
from planner.cost.case import case_of
from planner.cost.traffic.messages import message_widths, pipeline_messages
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.layout import layout_layers
from tests.cases import every
from tests.cli.command import planner

OURS = ("llama3.1-405b", 16, 8, (0, *[1] * 126, 0))
THEIRS = ("qwen3-235b-a22b", 32, 3, (0, *[1] * 94, 0))


def job(model: str, gpus: int = 512) -> Job:
    return Job(load_model(model), load_hardware("dgx-h100"), gpus, Workload(seq_len=4096, global_batch=256))


@pytest.mark.parametrize("runtime", ["megatron-lm", "megatron-bridge"])
@pytest.mark.parametrize(("model", "pp", "vpp", "split"), [OURS, THEIRS])
def test_embedding_and_loss_may_stand_alone(
    model: str, pp: int, vpp: int, split: tuple[int, ...], runtime: str
) -> None:
    axes = {"tp": 4, "pp": pp, "vpp": vpp, "sequence_parallel": True}
    known = estimate_plan(job(model), runtime, **axes)
    assert known.violations == ()
    assert known.plan.stage_layers == split
    given = estimate_plan(job(model), runtime, **axes, stage_layers=split)
    assert (given.violations, given.step, given.peak) == ((), known.step, known.peak)
    first, second, *_, last = (stage.weights for stage in known.stages)
    layers = (second / vpp) * (vpp - 1)
    embedding = 2.0 * known.job.model.vocab * known.job.model.hidden / 4
    assert first == pytest.approx(layers + embedding, rel=2e-3)
    assert last == pytest.approx(layers + embedding, rel=2e-3)
    assert simulate_plan(known).makespan == pytest.approx(known.step, rel=0.02)


def test_one_stage_more_than_layers_leaves_the_loss_alone() -> None:
    known = estimate_plan(job("llama3-8b", 66), "megatron-lm", pp=33, dp=2)
    assert known.plan.stage_layers == (*[1] * 32, 0)
    assert {one.rule for one in known.violations} == {"nodes-are-whole"}


def test_an_embedding_that_keeps_nothing_is_played() -> None:
    known = estimate_plan(job("qwen2.5-1.5b", 30), "megatron-lm", pp=30, micro_batch=1)
    assert known.plan.stage_layers == (0, *[1] * 28, 0)
    played = simulate_plan(known)
    assert played.makespan == pytest.approx(known.step, rel=0.02)
    assert [stage.peak_bytes for stage in played.stages] == pytest.approx(
        [stage.total for stage in known.stages], rel=1e-9
    )


@every("runtime", ["torchtitan", "deepspeed"])
def test_other_runtimes_need_a_layer_on_each_stage(runtime: str) -> None:
    with pytest.raises(Exception, match="stages-have-layers"):
        estimate_plan(job("llama3-8b", 136), runtime, pp=34, dp=4)


APART = (3, *[2] * 29, 0, 0)
BESIDE = (3, *[2] * 28, 1, 1, 0)
WIDE = {"tp": 2, "pp": 16, "vpp": 2, "ep": 64, "sequence_parallel": True, "zero": 1}


def marked(split: tuple[int, ...]) -> str:
    """The split with its prediction layers in the stage before the last, as an option says it."""
    return ",".join([*map(str, split[:-2]), f"{split[-2]}m", str(split[-1])])


def predicting(split: tuple[int, ...], runtime: str = "megatron-lm", apart: bool = False):
    work = Workload(seq_len=4096, global_batch=2048)
    whole = Job(load_model("deepseek-v3"), load_hardware("dgx-h100"), 2048, work)
    return estimate_plan(whole, runtime, **WIDE, stage_layers=marked(split) if apart else split)


@every("runtime", ["megatron-lm", "megatron-bridge"])
def test_prediction_layers_may_stand_alone(runtime: str) -> None:
    """``m|L`` of Megatron-LM's own example for DeepSeek-V3: the layer on rank 14, its head on rank 15."""
    apart, beside = predicting(APART, runtime), predicting(BESIDE, runtime)
    assert apart.violations == beside.violations == ()
    totals = [sum(stage.weights for stage in known.stages) for known in (apart, beside)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-9)
    assert apart.model_flops == beside.model_flops
    model = apart.job.model
    table = 2.0 * model.vocab * model.hidden / 2
    plain, lone, last = (apart.stages[rank].weights for rank in (13, 14, 15))
    one_layer = plain / 4
    extra = 2.0 * 2 * model.hidden**2 / 2
    assert lone == pytest.approx(3 * one_layer + table + extra, rel=2e-3)
    assert last == pytest.approx(2 * one_layer + table, rel=2e-3)
    assert lone + last < beside.stages[14].weights + beside.stages[15].weights + 2 * one_layer
    played = simulate_plan(apart).makespan / apart.step
    assert 0.97 < played < 1.005, (
        "the closed form has a rank's mean chunk, the played step its own, lighter ones"
    )


def test_prediction_layers_apart_send_two_tensors_to_the_loss() -> None:
    known = predicting(APART)
    case = case_of(known.plan, known.job, known.runtime)
    assert message_widths(case, APART) == (*[1.0] * 30, 2.0, 1.0)
    assert message_widths(case, BESIDE) == (1.0,) * 32
    apart, beside = (
        [sum(rank.values()) for rank in pipeline_messages(case, 16, 2, one)] for one in (APART, BESIDE)
    )
    more = [one - other for one, other in zip(apart, beside, strict=True)]
    assert more == [*[0.0] * 14, 1.0, 2.0], (
        "a gradient comes back to rank 14; a rank's end counts as its beginning"
    )


def test_a_rank_may_lack_layers_in_one_chunk_but_not_in_all() -> None:
    """GLM-5's layout in Megatron-Bridge leaves inner chunks empty (perf_recipes/glm_moe_dsa/h100/glm5.py)."""
    axes = {"pp": 4, "vpp": 2, "schedule": "interleaved-1f1b"}
    known = estimate_plan(job("llama3-8b", 64), "megatron-lm", **axes, stage_layers=(4, 4, 0, 8, 4, 4, 4, 4))
    assert known.violations == ()
    with pytest.raises(Exception, match="split-has-all-stages"):
        estimate_plan(job("llama3-8b", 64), "megatron-lm", **axes, stage_layers=(4, 4, 0, 8, 4, 4, 0, 8))


def test_a_search_finds_pinned_prediction_layers_alone() -> None:
    found = search_plans(
        job("deepseek-v3", 2048), "megatron-lm", pp=16, vpp=2, tp=2, ep=64, stage_layers=APART, top=1
    )
    assert found.plans[0].plan.stage_layers == APART
    most = search_plans(job("deepseek-v3", 2048), "megatron-lm", pp=16, vpp=4, tp=2, ep=64, top=1)
    assert most.plans[0].plan.stage_layers == (0, *[1] * 61, 0, 0)


NEXT = (3, *[2] * 28, 1, 1, 0)


@every("runtime", ["megatron-lm", "megatron-bridge"])
def test_prediction_layers_may_stand_beside_layers_before_the_loss(runtime: str) -> None:
    """``tm|L``: rank 14 holds its layers, the prediction layer and its embedding; rank 15 the table alone."""
    known, beside = predicting(NEXT, runtime, apart=True), predicting(NEXT, runtime)
    assert known.violations == ()
    assert sum(one.weights for one in known.stages) == pytest.approx(
        sum(one.weights for one in beside.stages), rel=1e-9
    )
    assert known.model_flops == beside.model_flops
    model = known.job.model
    table, extra = 2.0 * model.vocab * model.hidden / 2, 2.0 * 2 * model.hidden**2 / 2
    plain, lone, last = (known.stages[rank].weights for rank in (12, 14, 15))
    one_layer = plain / 4
    assert lone == pytest.approx((2 + 1 + 1) * one_layer + table + extra, rel=2e-3)
    assert last == pytest.approx(2 * one_layer + table, rel=2e-3)
    assert 0.97 < simulate_plan(known).makespan / known.step < 1.005
    case = case_of(known.plan, known.job, known.runtime)
    assert message_widths(case, NEXT) == (*[1.0] * 30, 2.0, 1.0)


@every(
    ("model", "runtime", "split"),
    [
        ("deepseek-v3", "torchtitan", (21, 20, 20, 0)),
        ("llama3-8b", "megatron-lm", (16, 8, 8, 0)),
    ],
)
def test_no_other_plan_has_prediction_layers_apart(model: str, runtime: str, split: tuple[int, ...]) -> None:
    with pytest.raises(Exception, match="split-has-all-stages"):
        estimate_plan(job(model), runtime, pp=4, stage_layers=marked((*split[:-1], 0)))


def test_a_search_tries_the_loss_alone_behind_prediction_layers() -> None:
    pins = {"pp": 16, "vpp": 2, "tp": 2, "ep": 64}
    pinned = search_plans(
        job("deepseek-v3", 2048), "megatron-lm", **pins, stage_layers=marked(NEXT), top=1
    ).plans[0]
    assert (pinned.plan.stage_layers, pinned.plan.prediction_apart) == (NEXT, True)
    found = search_plans(job("deepseek-v3", 2048), "megatron-lm", **pins, top=1).plans[0]
    assert found.step <= pinned.step * (1 + 1e-9)


@pytest.mark.parametrize("target", ["megatron-lm", "megatron-bridge"])
def test_files_say_prediction_layers_beside_layers(tmp_path: Path, target: str) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    asked = (
        *("estimate", "deepseek-v3", "--hardware", "dgx-h200", "--gpus", "2048", "--seq-len", "4096"),
        *("--global-batch", "4096", "--tp", "2", "--pp", "16", "--vpp", "2", "--ep", "64", "--etp", "1"),
        *("--sequence-parallel", "--stage-layers", "3," + "2," * 28 + "1,1m,0", "--recompute", "full"),
        *("--runtime", target, "--format", "json"),
    )
    known = planner(*asked, "--save", str(plan)).json
    assert known["plan"]["stage_layers"] == [*NEXT]
    assert known["plan"]["prediction_apart"] is True
    assert planner("emit", str(plan), "--out", str(out)).code == 0
    file = "train.sh" if target == "megatron-lm" else "train.py"
    assert "Ettt|(tt|)*28t|tm|L" in (out / file).read_text()
    back = planner("estimate", "--from", str(out / file), "--hardware", "dgx-h200", "--format", "json").json
    assert (back["plan"], back["step_time_s"]) == (known["plan"], known["step_time_s"])


@every("split", ["3m,29,29,0", "30,31m,0,0", "30,15m,16", "30m,31m,0"])
def test_a_mark_where_prediction_layers_cannot_be_is_refused(split: str) -> None:
    done = planner(
        *("estimate", "deepseek-v3", "--hardware", "dgx-h200", "--gpus", "512", "--pp", "4"),
        *("--stage-layers", split),
    )
    assert done.code == 2
    assert "prediction layers (m)" in done.err


@every("target", ["megatron-lm", "megatron-bridge"])
def test_files_say_prediction_layers_alone(tmp_path: Path, target: str) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    asked = (
        *("estimate", "deepseek-v3", "--hardware", "dgx-h200", "--gpus", "2048", "--seq-len", "4096"),
        *("--global-batch", "4096", "--tp", "2", "--pp", "16", "--vpp", "2", "--ep", "64", "--etp", "1"),
        *("--sequence-parallel", "--stage-layers", ",".join(map(str, APART)), "--recompute", "full"),
        *("--runtime", target, "--format", "json"),
    )
    known = planner(*asked, "--save", str(plan)).json
    assert planner("emit", str(plan), "--out", str(out)).code == 0
    file = "train.sh" if target == "megatron-lm" else "train.py"
    assert "Ettt|(tt|)*29m|L" in (out / file).read_text()
    assert [*layout_layers("Et*3|(tt|)*29,m|L")] == [*APART]
    if target == "megatron-lm":
        back = planner("estimate", "--from", str(out / file), "--hardware", "dgx-h200", "--format", "json")
        assert (back.json["plan"], back.json["step_time_s"]) == (known["plan"], known["step_time_s"])


def test_no_inner_stage_may_be_empty() -> None:
    with pytest.raises(Exception, match="split-has-all-stages"):
        estimate_plan(job("llama3-8b", 64), "megatron-lm", pp=4, stage_layers=(16, 0, 16, 0))


def test_a_search_offers_them() -> None:
    found = search_plans(job("llama3.1-405b"), "megatron-lm", pp=16, vpp=8, tp=8, top=1)
    assert found.plans[0].plan.stage_layers == OURS[3]


def test_files_say_them_and_are_read_back(tmp_path: Path) -> None:
    """The layout string, and Megatron's own two switches with a layer for each chunk, are the same split."""
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    asked = (
        *("estimate", "llama3.1-405b", "--hardware", "dgx-h200", "--gpus", "512", "--seq-len", "4096"),
        *("--global-batch", "256", "--tp", "8", "--pp", "16", "--vpp", "8", "--sequence-parallel"),
        *("--format", "json"),
    )
    known = planner(*asked, "--save", str(plan)).json
    assert known["defaults"]["stage_layers"] == list(OURS[3])
    assert planner("emit", str(plan), "--out", str(out)).code == 0
    script = (out / "train.sh").read_text()
    layout = "--pipeline-model-parallel-layout 'E|(t|)*126L'"
    assert layout in script
    assert tuple(layout_layers("E|(t|)*126L")) == OURS[3]
    switches = (
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
        "--num-layers-per-virtual-pipeline-stage 1"
    )
    (tmp_path / "own.sh").write_text(script.replace(layout, switches))
    for path in (out / "train.sh", tmp_path / "own.sh"):
        read = planner("estimate", "--from", str(path), "--hardware", "dgx-h200", "--format", "json")
        answer = json.loads(read.out)
        assert answer["plan"] == known["plan"]
        assert answer["step_time_s"] == known["step_time_s"]
        assert answer["memory"] == known["memory"]
    assert planner("emit", str(plan), "--out", str(out / "b"), "--target", "megatron-bridge").code == 0
    assert "pipeline_model_parallel_layout='E|(t|)*126L'" in (out / "b" / "train.py").read_text()


def test_sequence_parallelism_at_tp_1_is_switched_off() -> None:
    on, off = (estimate_plan(job("llama3-8b", 64), sequence_parallel=flag, zero=1) for flag in (True, False))
    assert (on.violations, on.step, on.peak) == ((), off.step, off.peak)


def test_the_split_of_experts_that_a_model_lacks_says_nothing() -> None:
    one, two = (estimate_plan(job("llama3-8b", 64), tp=2, etp=etp) for etp in (1, 2))
    assert (two.violations, two.step, two.peak) == ((), one.step, one.peak)
