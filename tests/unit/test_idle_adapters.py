"""Switches of adapters do nothing where no adapter is trained, whatever else is."""

from __future__ import annotations

from planner.runtimes.idle import ADAPTERS, in_effect
from planner.techniques.methods import METHODS
from tests.cases import every
from tests.unit.runner_jobs import DENSE, job, plan

CHANGES = {"adapter_dropout": True, "adapter_all_to_all": True}


@every("method", METHODS)
def test_switches_of_adapters_run_where_adapters_stand(method: str) -> None:
    task = job(DENSE, 8, method=method)
    run = CHANGES if method in ("lora", "qlora") else {}
    assert in_effect(ADAPTERS, plan(task), task, CHANGES) == run
