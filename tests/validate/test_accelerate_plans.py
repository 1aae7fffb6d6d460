"""Accelerate's own parsers take every legal FSDP plan as it is meant."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from planner.runtimes.family import GROWING_SEGMENTS
from planner.runtimes.fsdp import ENTRY
from planner.runtimes.fsdp.files import mesh
from planner.runtimes.hub.config import architecture, hub_config, layer_class
from tests.helpers import ROOT
from tests.unit.runner_jobs import MODELS
from tests.validate.ask import PYTHON, counted, judged, ours_alone, refusals
from tests.validate.known_rules import UNSEEN
from tests.validate.numerics import hub_says
from tests.validate.random_plans import Case, priced_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("accelerate", "no interpreter with accelerate: make validate"),
]


def test_legal_plans_are_taken_as_meant(tmp_path: Path) -> None:
    verdicts = judged(ENTRY, "check_accelerate.py", legal=True, folder=tmp_path, more={"count": True})
    assert refusals(verdicts) == []
    for verdict in verdicts:
        derived, plan = verdict.answer["derived"], verdict.case.plan
        assert_params(derived["params"], verdict.case)
        assert derived["numbers"] == hub_says(verdict.case.job.model)
        if "mesh" in derived:
            assert derived["mesh"] == {axis: size for axis, size in mesh(plan).items() if size > 1}
        if plan.zero:
            assert derived["version"] == 2
            assert derived["reshard"] == (plan.zero == 3)
            assert derived["recompute"] == (plan.recompute == "full")


def assert_params(found: dict[str, int], case: Case) -> None:
    """Assert that a rank holds the plan's parameters: each where the chunks are even, else in the mean."""
    (planned,) = priced_params(ENTRY, case)
    assert found["split"] == planned, case
    assert ("first" in found) == (case.plan.zero > 0)
    if case.plan.zero:
        assert found["shards"] == case.plan.zero_shards, case
        assert found["all"] == planned, case
        assert (found["first"] * found["shards"] == planned) == found["even"], case


def test_torchrun_starts_what_the_launcher_starts(tmp_path: Path) -> None:
    for verdict in judged(ENTRY, "check_accelerate.py", legal=True, folder=tmp_path):
        ours = {
            name: value for name, value in verdict.command.environment.items() if name not in GROWING_SEGMENTS
        }
        theirs = verdict.answer["derived"]["environment"]
        assert {name: theirs.get(name) for name in ours} == ours


def test_what_accelerate_refuses_we_refuse_and_what_only_we_refuse_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = judged(ENTRY, "check_accelerate.py", legal=False, folder=tmp_path)
    with capsys.disabled():
        print(counted(verdicts))  # noqa: T201
    assert refusals(verdicts)
    assert ours_alone(verdicts) <= set(UNSEEN[ENTRY.name])


def test_transformers_builds_exactly_the_parameters(tmp_path: Path) -> None:
    known = [model for model in MODELS if architecture(model)]
    for index, model in enumerate(known):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "config.json").write_text(json.dumps(hub_config(model, 2048)))
    run = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_transformers.py"],
        input="".join(f"{tmp_path / str(index)}\n" for index in range(len(known))),
        capture_output=True,
        text=True,
        check=True,
    )
    for model, line in zip(known, run.stdout.splitlines(), strict=True):
        count, *classes = line.split()
        assert int(count) == model.params, model.name
        assert layer_class(architecture(model) or "") in classes
