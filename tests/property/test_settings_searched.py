"""What a search makes of settings, against every combination, every scan by itself and the fastest plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.legality import Legality, plan_rows
from planner.search.legality import named as legal_named
from planner.search.optimise import search
from planner.search.request import objective_column, scan_of, scans_of
from planner.search.settings import OpenSettings, variants
from planner.techniques.settings import SETTINGS
from tests.unit.test_settings import MEGATRON, asked, combinations, llama, qwen, with_settings


@pytest.mark.parametrize("job", [qwen(), llama("bf16")], ids=["experts", "dense"])
def test_no_setting_takes_the_plan_of_least_memory_beyond_its_time(job: Job) -> None:
    wanted = replace(asked(job, runtimes()["megatron-bridge"], OpenSettings()), objective="memory")
    result = search(wanted)
    within = result.optimality["within_s"]
    assert isinstance(within, float)
    assert result.plans
    assert max(plan.step for plan in result.plans) <= within
    fastest = search(replace(wanted, objective="time")).plans[0]
    assert within <= wanted.slowdown * fastest.step * (1 + 1e-9)


@pytest.mark.parametrize(
    ("job", "name"), [(qwen("bf16", "dgx-h100"), "megatron-lm"), (llama(), "megatron-bridge")]
)
def test_no_combination_of_settings_makes_the_best_plan_faster(job: Job, name: str) -> None:
    """Against brute force over all combinations for the mesh that a search calls best."""
    runtime = runtimes()[name]
    best = search(asked(job, runtime, OpenSettings())).plans[0]
    limit = best.peak
    for values in combinations(job, best.plan, runtime):
        if any(one.numerics and values.get(name, one.plain) != one.plain for name, one in SETTINGS.items()):
            continue  # taken only where it is allowed
        other = estimate(best.plan, job, with_settings(runtime, values))
        assert other.step >= best.step * 0.999 or other.peak > limit, values


@pytest.mark.parametrize("name", MEGATRON)
def test_scans_that_share_what_is_legal_find_what_each_finds_alone(name: str) -> None:
    """Each scan's legal rows and best plans against a scan of its own, whose rows are all priced in full."""
    job, runtime = qwen("mxfp8"), runtimes()[name]
    request = replace(asked(job, runtime, OpenSettings()), fixed={"cp": 1})
    jobs = [(job, one) for one in variants(job, runtime, request.open_settings(job, runtime))]
    shared = scans_of(request, jobs)
    assert len(shared) > 1
    skipped = 0
    for scan, (_, one) in zip(shared, jobs, strict=True):
        report = scan.run(objective_column("time"))
        scope = replace(scan_of(request, job, one.runtime), usual=one.usual, beside=one.beside)
        alone = scope.run(objective_column("time"))
        assert (report.valid, report.removed) == (alone.valid, alone.removed)
        assert report.best == alone.best
        assert report.candidates == alone.candidates
        skipped += report.skipped
        legality = Legality(scan.space.rows, job, one.runtime, scan.choices, scan.shards, beside=one.beside)
        for names in scan.choices.passes():
            legal = legality.rows_of(names, Counter())
            for states, mask in zip(scan.choices.states(), legal.masks, strict=True):
                plan = legal_named(plan_rows(scan.space.rows, legal.rows), names, states, scan.shards)
                for row in range(0, legal.rows.size, 1 + legal.rows.size // 3):
                    broken = violations(one.runtime.rules(plan.row((row,)), job))
                    assert not (mask[row] and broken)
    assert skipped > 0


def test_plans_that_all_wait_for_their_host_are_told_apart_by_graphs() -> None:
    """Eagerly sixteen layouts tie at the host's time; which is best is seen where none waits."""
    work = Workload(seq_len=2048, global_batch=8, method="lora")
    job = Job(load_model("llama2-7b"), load_hardware("dgx-h100"), 16, work)
    request = replace(asked(job, runtimes()["megatron-bridge"], OpenSettings()), fixed={})
    best = search(request).plans[0]
    assert best.time.other < 0.05 * best.step
    for fixed in ({"tp": 2, "sequence_parallel": True}, {"tp": 1}, {"cp": 2}):
        other = search(replace(request, fixed=fixed)).plans[0]
        assert best.step <= other.step * (1 + 1e-9)


def test_no_rule_between_settings_hides_the_combination_that_is_best() -> None:
    """Overlap of biased experts forbids graphs of attention, and goes with graphs of the router alone."""
    work = Workload(seq_len=4096, global_batch=32, precision="fp8")
    job = Job(load_model("gpt-oss-20b"), load_hardware("dgx-b200"), 128, work)
    request = replace(asked(job, runtimes()["megatron-bridge"], OpenSettings()), fixed={})
    best = search(request).plans[0]
    for fixed in ({"tp": 4, "pp": 2, "ep": 32}, {"tp": 4, "pp": 1, "ep": 32}):
        other = search(replace(request, fixed=fixed)).plans[0]
        assert best.step <= other.step * (1 + 1e-9)
