"""Plans of one model, written for torchtitan and shown to its own code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job, Runtime
from tests.validate.ask import Verdict, asked, refusals
from tests.validate.random_plans import Case

SPLIT = ("tp", "pp", "ep")


def taken(runtime: Runtime, model: ModelSpec, plans: Sequence[Plan], folder: Path) -> list[Verdict]:
    """Return what torchtitan derives of legal plans on 64 H100, all of which it takes on the mesh meant."""
    assert runtime.command is not None
    written = []
    for plan in plans:
        job = Job(model, load_hardware("dgx-h100"), 64, Workload(seq_len=8192, global_batch=256))
        assert not violations(all_rules(plan, case_of(plan, job, runtime)))
        command = runtime.command(plan, job, runtime.versions[0])
        place = folder / str(len(written))
        place.mkdir()
        for file, text in (command.files or {}).items():
            (place / file).write_text(text, encoding="utf-8")
        written.append((Case(job, plan, ()), command, place))
    verdicts = asked(written, "check_torchtitan.py")
    assert refusals(verdicts) == []
    for verdict in verdicts:
        plan, derived = verdict.case.plan, verdict.answer["derived"]
        assert derived["dp_replicate"] == plan.dp / plan.zero_shards
        assert {axis: derived[axis] for axis in SPLIT} == {axis: getattr(plan, axis) for axis in SPLIT}
        assert derived["params"] == model.params
    return verdicts
