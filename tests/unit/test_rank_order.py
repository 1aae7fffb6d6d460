"""Stages side by side, replicas apart (Megatron-LM's ``--use-tp-pp-dp-mapping``): tiers, islands, files."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.traffic.messages import pipeline_messages
from planner.cost.traffic.rank_order import stage_order
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.explain_ranks import rank_rows
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner

MEGATRON = runtimes()["megatron-lm"]


def priced(tp: int, pp: int, gpus: int = 64, inside: bool = True, model: str = "llama3-8b") -> Estimate:
    dp = gpus / tp / pp
    work = Workload(seq_len=4096, global_batch=4 * gpus)
    plan = Plan(tp=float(tp), pp=float(pp), dp=dp, zero=1, zero_shards=dp, num_microbatches=4 * gpus / dp)
    job = Job(load_model(model), load_hardware("dgx-h100"), gpus, work)
    return estimate(plan, job, MEGATRON.with_traits(stages_inside=inside))


@every(("tp", "pp"), [(1, 8), (2, 4), (2, 8), (1, 3), (1, 6), (4, 2)])
@every("inside", [True, False])
def test_a_message_comes_over_the_farthest_link_between_any_two_of_its_ranks(
    tp: int, pp: int, inside: bool
) -> None:
    """By the ranks themselves, node by node, as the explanation lists them."""
    answer = priced(tp, pp, gpus=48 if pp % 3 == 0 else 64, inside=inside)
    case = case_of(answer.plan, answer.job, answer.runtime)
    found = pipeline_messages(case, pp, 1, order=stage_order(case, answer.plan))
    nodes: dict[tuple[int, int], list[int]] = {}
    for row in rank_rows(answer):
        nodes.setdefault((int(row["tp"]), int(row["dp"])), []).append(int(row["node"]))
    assert all(len(stages) == pp for stages in nodes.values())
    apart = [any(stages[at] != stages[at + 1] for stages in nodes.values()) for at in range(pp - 1)]
    told = {place: bool(set(found[place]) & {len(case.tiers) - 1}) for place in range(pp)}
    for place, (before, after) in enumerate(pairwise([False, *apart, False])):
        assert told[place] == (before or after)


def test_pipelines_inside_nodes_send_gradients_between_them() -> None:
    """Eight ranks of a pipeline fill a node: no message of stages leaves it, all of data parallelism does."""
    inside, apart = (priced(2, 4, inside=one) for one in (True, False))
    assert inside.time.pp_comm < 0.5 * apart.time.pp_comm
    assert inside.time.dp_comm > 2 * apart.time.dp_comm
    assert inside.sent == apart.sent
    assert inside.peak == apart.peak


def test_without_a_pipeline_there_is_one_order() -> None:
    assert priced(2, 1, inside=True).step == priced(2, 1, inside=False).step


@every(
    ("model", "plan", "rule"),
    [
        (
            "llama3-8b",
            Plan(cp=2.0, pp=2.0, dp=2.0, zero=1, zero_shards=4.0, num_microbatches=32.0),
            "without-context",
        ),
        (
            "mixtral-8x7b",
            Plan(pp=2.0, dp=4.0, ep=4.0, zero=1, zero_shards=4.0, num_microbatches=16.0),
            "dense",
        ),
        ("llama3-8b", Plan(pp=4.0, vpp=2.0, dp=2.0, num_microbatches=32.0, schedule="dualpipe"), "one-copy"),
    ],
)
def test_what_would_lie_unevenly_is_refused(model: str, plan: Plan, rule: str) -> None:
    job = Job(load_model(model), load_hardware("dgx-h100"), 8, Workload(seq_len=4096, global_batch=64))
    answer = estimate(plan, job, MEGATRON.with_traits(stages_inside=True))
    assert f"stages-inside-{rule}" in {fault.rule for fault in answer.violations}


def test_the_flag_is_written_and_read_back_at_the_same_price(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "64", "--tp", "2", "--pp", "4", "--zero", "1")
    done = planner(
        "estimate", *job, "--set", "rank_order=stages-inside", "--save", str(saved), "--format", "json"
    )
    assert done.code == 0, done.err
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    script = out / "train.sh"
    assert "--use-tp-pp-dp-mapping" in script.read_text()
    again = planner(
        "estimate", "--from", str(script), "--hardware", "dgx-h100", "--gpus", "64", "--format", "json"
    )
    assert again.json["step_time_s"] == done.json["step_time_s"]
    plain = planner("estimate", *job, "--format", "json")
    assert plain.json["step_time_s"] != done.json["step_time_s"]


def test_bridge_has_a_field_for_it_that_is_read_back(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "64", "--tp", "2", "--pp", "4", "--zero", "1")
    bridge = (*job, "--runtime", "megatron-bridge", "--format", "json")
    done = planner("estimate", *bridge, "--set", "rank_order=stages-inside", "--save", str(saved))
    assert done.code == 0, done.err
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    (script,) = (path for path in out.glob("*.py") if "use_tp_pp_dp_mapping=True" in path.read_text())
    again = planner(
        "estimate", "--from", str(script), "--hardware", "dgx-h100", "--gpus", "64", "--format", "json"
    )
    assert again.json["step_time_s"] == done.json["step_time_s"]
    assert again.json["step_time_s"] != planner("estimate", *bridge).json["step_time_s"]


ISLANDS = "name: two\nbase: dgx-h100\nislands: {gpus: 32, bandwidth: 10 Gbit/s, latency: 30 ms}\n"


def test_data_parallelism_crosses_islands_where_pipelines_lie_inside(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(ISLANDS)
    layout = ("--tp", "2", "--pp", "4", "--zero", "1", "--global-batch", "256", "--seq-len", "4096")
    job = ("llama3-8b", "--hardware", str(path), "--gpus", "64", *layout, "--format", "json")
    inside, apart = (
        planner("estimate", *job, "--set", f"rank_order={order}").json
        for order in ("stages-inside", "data-inside")
    )
    assert inside["feasible"]
    assert inside["time_s"]["pp_comm"] < 0.1 * apart["time_s"]["pp_comm"]
    assert inside["time_s"]["dp_comm"] > apart["time_s"]["dp_comm"]
    uneven = planner("estimate", *job[:5], "--tp", "1", "--pp", "64", "--set", "rank_order=stages-inside",
                     "--global-batch", "64", "--format", "json").json  # fmt: skip
    assert "pipelines-keep-to-islands" in {fault["rule"] for fault in uneven["violations"]}


@every(
    ("model", "axes", "legal"),
    [
        ("llama3-8b", {"tp": 2.0, "pp": 4.0}, True),
        ("llama3-8b", {"tp": 2.0, "pp": 4.0, "cp": 2.0}, False),
        ("llama3-8b", {"tp": 2.0, "pp": 1.0, "cp": 2.0}, True),
        ("mixtral-8x7b", {"tp": 2.0, "pp": 4.0, "cp": 2.0, "ep": 4.0}, True),
        ("mixtral-8x7b", {"tp": 2.0, "pp": 4.0, "ep": 4.0}, False),
        ("mixtral-8x7b", {"tp": 2.0, "pp": 4.0, "etp": 2.0}, True),
    ],
)
def test_replicas_of_experts_are_those_of_attention(model: str, axes: dict[str, float], legal: bool) -> None:
    """Megatron-LM d98e8a64, core/parallel_state.py: asserted of an order that does not end in pp."""
    dp = 64 / axes["tp"] / axes["pp"] / axes.get("cp", 1.0)
    sharded = Plan(dp=dp, zero=1, zero_shards=dp, num_microbatches=256 / dp, sequence_parallel=True)
    plan = replace(sharded, **axes)  # type: ignore[arg-type]
    job = Job(load_model(model), load_hardware("dgx-h100"), 64, Workload(seq_len=4096, global_batch=256))
    for name in ("megatron-lm", "megatron-bridge"):
        answer = estimate(plan, job, runtimes()[name].with_traits(stages_inside=True))
        assert ("stages-inside-keep-replicas" not in {one.rule for one in answer.violations}) == legal
