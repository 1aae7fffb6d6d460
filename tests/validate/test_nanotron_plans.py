"""nanotron's own loader and process groups take every legal plan as it is meant.

NANOTRON names a checkout of nanotron, VALIDATE_PYTHON an interpreter with torch, dacite, pyyaml, numpy.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.runtimes.nanotron import ENTRY
from planner.runtimes.nanotron.rules import own_split
from planner.runtimes.training_run import TrainingRun, run_of
from tests.validate.ask import counted, judged, ours_alone, refusals
from tests.validate.known_rules import UNSEEN
from tests.validate.numerics import nanotron_says
from tests.validate.random_plans import priced_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("NANOTRON"), reason="NANOTRON names no checkout of nanotron"),
    pytest.mark.needs("dacite", "no interpreter with dacite in VALIDATE_PYTHON"),
]


def cut(costs: list[float], stages: int, layers: int) -> tuple[int, ...]:
    """Return the layers per stage from cumulated costs, walked block by block as ``build_model`` does."""
    counts, stage = [0] * stages, 0
    for block, total in enumerate(costs):
        counts[stage] += 1 <= block <= layers
        stage += total > costs[-1] * (stage + 1) / stages
    return tuple(counts)


def assert_run(found: dict[str, object], run: TrainingRun) -> None:
    """Assert that nanotron's schedule is that of the run."""
    assert found == {
        "steps": run.train_steps, "rate": run.learning_rate, "lowest": run.min_learning_rate,
        "warmup": run.warmup_steps, "end": run.decay_steps, "decay_style": run.decay_style,
        "weight_decay": run.weight_decay, "clip": run.clip, "seed": run.seed,
        "save_interval": run.save_interval,
    }  # fmt: skip


def test_legal_plans_are_taken_as_meant(tmp_path: Path) -> None:
    verdicts = judged(ENTRY, "check_nanotron.py", legal=True, folder=tmp_path)
    assert refusals(verdicts) == []
    for verdict in verdicts:
        derived, plan, job = verdict.answer["derived"], verdict.case.plan, verdict.case.job
        same = ("dp", "pp", "tp", "cp", "ep", "micro_batch", "num_microbatches", "zero", "sequence_parallel")
        assert {name: derived[name] for name in same} == {name: getattr(plan, name) for name in same}
        assert derived["global_batch"] == job.workload.global_batch
        assert derived["recompute"] == (plan.recompute == "full")
        assert derived["model"] == "Qwen2Config"
        assert derived["numbers"] == nanotron_says(job.model)
        assert_run(derived["run"], run_of(job))
        assert derived["smoke"] == {"steps": 20, "data": None, "saves": False}
        split = plan.stage_layers or own_split(job.model, int(plan.pp))
        assert derived["stage_params"] == priced_params(ENTRY, verdict.case), plan
        assert cut(derived["costs"], int(plan.pp), job.model.num_layers) == split


def test_what_nanotron_refuses_we_refuse_and_what_only_we_refuse_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = judged(ENTRY, "check_nanotron.py", legal=False, folder=tmp_path)
    with capsys.disabled():
        print(counted(verdicts))  # noqa: T201
    assert refusals(verdicts)
    assert ours_alone(verdicts) <= set(UNSEEN[ENTRY.name])
