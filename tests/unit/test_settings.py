"""Settings of a runtime as axes: values, rules, files and their reading, and what a search makes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations as pairs_of
from itertools import product
from pathlib import Path

import pytest

from planner.cli.estimate import read
from planner.cli.from_file import asked_of
from planner.cli.options import JobOptions, PlanOptions
from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.legal import all_rules
from planner.cost.settings import settings_of, with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.launchers import launchers
from planner.launchers.family import LauncherSettings
from planner.plan import Plan
from planner.report.settings_line import unproven_settings
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import ANY, changed
from planner.runtimes.trait_values import is_allowed
from planner.runtimes.traits import TRAITS, Traits
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.settings import OpenSettings
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.deep import in_turn

SEARCHING = [name for name, runtime in runtimes().items() if runtime.searched]
FILES = {"megatron-lm": "train.sh", "megatron-bridge": "train.py", "torchtitan": "train.sh"}
MEGATRON = ["megatron-bridge", "megatron-lm"]


def qwen(precision: str = "mxfp8", hardware: str = "gb300-nvl72") -> Job:
    work = Workload(seq_len=4096, global_batch=512, precision=precision)
    return Job(load_model("qwen3-30b-a3b"), load_hardware(hardware), 8, work)


def llama(precision: str = "mxfp8") -> Job:
    work = Workload(seq_len=4096, global_batch=64, precision=precision)
    return Job(load_model("llama3-8b"), load_hardware("gb300-nvl72"), 8, work)


PLANS = {
    "float8": (
        llama("fp8"),
        Plan(tp=2, dp=4, micro_batch=2, num_microbatches=8, zero=3, zero_shards=4, sequence_parallel=True),
    ),
    "experts": (qwen(), Plan(ep=8, dp=8, micro_batch=8, num_microbatches=8, zero=1, zero_shards=8)),
    "dense": (
        llama(),
        Plan(tp=2, dp=4, micro_batch=2, num_microbatches=8, zero=1, zero_shards=4, sequence_parallel=True),
    ),
}


def with_settings(runtime: Runtime, values: dict[str, str]) -> Runtime:
    for name, value in values.items():
        runtime = with_value(runtime, name, value)
    return runtime


@every("setting", SETTINGS.values(), ids=SETTINGS)
def test_values_set_the_same_traits_and_are_told_apart(setting: object) -> None:
    known = SETTINGS[setting.name]  # type: ignore[attr-defined]
    names = {tuple(sorted(changes)) for changes in known.values.values()}
    assert len(names) == 1, "each value decides the same traits"
    assert set(next(iter(names))) <= set(TRAITS)
    for value, changes in known.values.items():
        assert all(is_allowed(name, word) for name, word in changes.items())
        assert known.value_of(Traits().with_values(**changes)) == value  # type: ignore[arg-type]
    assert set(known.scanned) <= set(known.values) - {known.plain}
    assert set(known.evidence or {}) <= set(known.values) - {known.plain}


@every("name", SEARCHING)
def test_a_runtime_starts_from_a_known_value_of_each_setting_and_files_can_say_the_others(name: str) -> None:
    runtime = runtimes()[name]
    for setting in (SETTINGS[one] for one in runtime.searched):
        plain = setting.value_of(runtime.traits)
        assert plain is not None
        for changes in (changes for value, changes in setting.values.items() if value != plain):
            for trait, word in changes.items():
                own = runtime.traits.value_of(trait)
                assert word == own or {word, ANY} & set(runtime.settings[trait]), (setting.name, trait)


def combinations(job: Job, plan: Plan, runtime: Runtime) -> list[dict[str, str]]:
    """Return every combination of settings that matter for a job and that the runtime runs with a plan."""
    known = {name: SETTINGS[name].values for name in settings_of(job, runtime)}
    found = [dict(zip(known, values, strict=True)) for values in product(*known.values())]
    usual = settings_of(job, runtime)
    idle = {"tp_overlap"} if plan.tp == 1 else set()
    return [
        one
        for one in found
        if all(one[name] == usual[name] for name in idle & set(one))
        and (job.model.expert_kinds or one.get("cuda_graphs") != "router")
        and not violations(all_rules(plan, case_of(plan, job, with_settings(runtime, one))))
    ]


def of_each_pair(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return some of these, which have every pair of values of two settings that any of them has."""
    kept, seen = [], set[tuple[tuple[str, str], ...]]()
    for one in found:
        if not seen.issuperset(new := set(pairs_of(one.items(), 2))):
            seen |= new
            kept.append(one)
    return kept


@pytest.mark.parametrize(
    ("name", "kind"),
    [*in_turn(MEGATRON, ("experts", "dense")), ("torchtitan", "float8")],
)
def test_what_is_written_of_settings_is_read_back_at_the_same_price(
    name: str, kind: str, tmp_path: Path
) -> None:
    (job, plan), runtime = PLANS[kind], runtimes()[name]
    assert runtime.command is not None
    found = of_each_pair(combinations(job, plan, runtime))
    values = {value for one in found for value in one.values()}
    assert values > {"megatron-bridge": {"te", "passes"}, "megatron-lm": {"on", "passes"}}.get(
        name, {"on", "false", "16"}
    )
    for number, values in enumerate(found):
        chosen = with_settings(runtime, values)
        command = runtime.command(plan, job, runtime.versions[0], changed(chosen.traits, runtime.traits))
        files = launchers()["torchrun"].files(command, job, LauncherSettings("title", "cite", "job"))
        folder = tmp_path / str(number)
        folder.mkdir()
        for other, text in files.items():
            (folder / other).write_text(text, encoding="utf-8")
        request = asked_of(folder / FILES[name], JobOptions("", hardware=["gb300-nvl72"]), PlanOptions())
        whole, again, reader, _, _ = request.read(read)
        assert request.origin is not None
        assert request.origin.found.unknown == ()
        assert settings_of(whole, reader) == settings_of(job, chosen), values
        price = estimate(plan, job, chosen)
        assert estimate(again, whole, reader).step == pytest.approx(price.step, rel=1e-12), values


def test_rules_forbid_what_megatron_refuses() -> None:
    job, plan = PLANS["experts"]
    runtime = runtimes()["megatron-bridge"]

    def broken(values: dict[str, str], plan: Plan = plan, job: Job = job) -> set[str]:
        return {fault.rule for fault in estimate(plan, job, with_settings(runtime, values)).violations}

    overlap = {"expert_overlap": "on"}
    assert broken(overlap) == set()
    piped = replace(plan, pp=2.0, dp=4.0, ep=4.0, zero_shards=4.0, num_microbatches=16.0)
    assert broken(overlap, piped) == {"expert-overlap-needs-chunks"}
    assert broken(overlap, replace(plan, recompute="full")) == {"expert-overlap-keeps-layers"}
    assert broken(overlap, replace(plan, recompute="selective:moe")) == {"expert-overlap-keeps-layers"}
    graphs = {"cuda_graphs": "passes"}
    assert broken(graphs) == {"graph-of-experts-has-static-shapes"}
    assert broken(graphs | {"expert_dispatcher": "fused"}) == set()
    assert "graph-of-experts-has-static-shapes" in broken(
        graphs | {"expert_dispatcher": "fused"}, job=qwen("bf16")
    )
    assert broken({"cuda_graphs": "attention"}, replace(plan, recompute="full")) == {"graphs-hold-recompute"}
    assert broken({"expert_dispatcher": "fused"}, job=qwen("bf16", "mi300x-8")) == {"fused-dispatcher-runs"}


def test_graphs_need_a_release_that_has_their_flags() -> None:
    job, plan = PLANS["dense"]
    for release, refused in (("0.20", False), ("0.18", True)):
        runtime = with_value(replace(runtimes()["megatron-lm"], release=release), "cuda_graphs", "passes")
        names = {fault.rule for fault in estimate(plan, job, runtime).violations}
        assert ("release-has-flags" in names) == refused, release


def asked(job: Job, runtime: Runtime, settings: OpenSettings | None) -> SearchRequest:
    return SearchRequest(
        job.model, (job.hardware,), (job.gpus,), job.workload, (runtime,), {"cp": 1}, top=3, settings=settings
    )


def test_the_recipe_of_qwen3_on_eight_gb300_is_found() -> None:
    """Megatron-Bridge's summary of 26.06: 5.9 s with ep 8, micro-batches of 8, HybridEP and a whole graph.

    https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html
    """
    job, runtime = qwen(), runtimes()["megatron-bridge"]
    usual = search(asked(job, runtime, None)).plans[0]
    best = search(asked(job, runtime, OpenSettings())).plans[0]
    assert usual.step > 1.8 * best.step
    assert best.step == pytest.approx(5.9, rel=0.06)
    assert settings_of(job, best.runtime)["gradients"] == "fp32"
    published = with_settings(
        runtime,
        {
            "cuda_graphs": "passes",
            "expert_dispatcher": "fused",
            "expert_overlap": "on",
            "loss_kernel": "te",
            "low_bit_weights": "alone",
        },
    )
    recipe = estimate(PLANS["experts"][1], job, published)
    assert not recipe.violations
    assert recipe.feasible
    assert best.step <= 1.01 * recipe.step


def test_a_pinned_setting_is_kept_and_numerics_change_only_where_allowed() -> None:
    job, runtime = qwen(), runtimes()["megatron-bridge"]
    pinned = search(asked(job, runtime, OpenSettings(pinned=("expert_dispatcher", "cuda_graphs"))))
    for plan in pinned.plans:
        own = settings_of(job, plan.runtime)
        assert (own["expert_dispatcher"], own["cuda_graphs"]) == ("all-to-all", "none")
        assert own["gradients"] == "fp32"
    free = search(asked(job, runtime, OpenSettings(allowed=("gradients",)))).plans[0]
    assert settings_of(job, free.runtime)["gradients"] == "bf16"


def test_least_memory_is_near_the_fastest_plan_with_its_settings() -> None:
    """Graphs make this job three times as fast, so that the limit follows the plans that have them."""
    model, cluster = load_model("llama3-8b"), load_hardware("dgx-h100")
    job = Job(model, cluster, 64, Workload(seq_len=4096, global_batch=1))
    wanted = asked(job, runtimes()["megatron-lm"], OpenSettings())
    fastest = min(search(wanted).plans, key=lambda plan: plan.step)
    small = search(replace(wanted, objective="memory"))
    within = float(str(small.optimality["within_s"]))
    assert within == pytest.approx(wanted.slowdown * fastest.step)
    assert small.plans[0].step <= within
    assert small.plans[0].peak <= fastest.peak


@every("name", ["megatron-lm", "megatron-bridge"])
def test_overlap_of_experts_that_send_nothing_changes_no_price(name: str) -> None:
    """The files leave it out where experts are whole on each rank; the price does too."""
    job, runtime = qwen("bf16"), with_value(runtimes()[name], "cuda_graphs", "none")
    whole = Plan(tp=2, dp=4, num_microbatches=128, zero=1, zero_shards=4, sequence_parallel=True)
    spread = replace(whole, ep=4)
    off, on = (with_value(runtime, "expert_overlap", value) for value in ("off", "on"))
    assert estimate(whole, job, on).step == estimate(whole, job, off).step
    assert estimate(spread, job, on).step != estimate(spread, job, off).step


def test_a_setting_that_no_measured_run_has_is_called_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    job, plan = PLANS["experts"]
    runtime = with_value(runtimes()["megatron-bridge"], "expert_dispatcher", "fused")
    assert unproven_settings(estimate(plan, job, runtime)) == []
    unmeasured = dict(SETTINGS) | {"expert_dispatcher": replace(SETTINGS["expert_dispatcher"], evidence=None)}
    monkeypatch.setattr("planner.cost.settings.SETTINGS", unmeasured)
    (told,) = unproven_settings(estimate(plan, job, runtime))
    assert "expert_dispatcher fused" in told


def test_a_setting_that_the_accelerator_cannot_run_is_not_scanned() -> None:
    """Fused dispatchers run on NVIDIA's accelerators alone: experts on others are searched without them."""
    job = replace(qwen("bf16", "mi300x-8"), gpus=16)
    plans = search(asked(job, runtimes()["megatron-lm"], OpenSettings())).plans
    assert plans
    assert {settings_of(job, plan.runtime)["expert_dispatcher"] for plan in plans} == {"all-to-all"}
