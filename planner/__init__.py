"""Parallelism planner and cost-model auto-tuner for training large models.

The names below are the public ones; each is loaded when it is first used: ``import planner`` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.api import (
        Estimate,
        Infeasible,
        InputError,
        Job,
        Plan,
        PlannerError,
        UnsupportedPlan,
        Workload,
        as_document,
        emit_plan,
        estimate_plan,
        explain_plan,
        load_hardware,
        load_model,
        load_plan,
        load_runtime,
        save_plan,
        search_plans,
        simulate_plan,
        synthesise_schedule,
        validate_runs,
    )
    from planner.notebook import (
        PricedColumns,
        compare_plans,
        estimate_plans,
        list_hardware,
        list_models,
        plan_goodput,
        plan_mfu,
        sweep_plans,
    )

__all__ = [
    "Estimate", "Infeasible", "InputError", "Job", "Plan", "PlannerError", "PricedColumns", "UnsupportedPlan",
    "Workload", "as_document", "compare_plans", "emit_plan", "estimate_plan", "estimate_plans",
    "explain_plan", "list_hardware", "list_models", "load_hardware", "load_model", "load_plan",
    "load_runtime", "plan_goodput", "plan_mfu", "save_plan", "search_plans", "simulate_plan", "sweep_plans",
    "synthesise_schedule", "validate_runs",
]  # fmt: skip

NOTEBOOK = frozenset({
    "PricedColumns", "compare_plans", "estimate_plans", "list_hardware", "list_models", "plan_goodput",
    "plan_mfu", "sweep_plans",
})  # fmt: skip
"""Names of `planner.notebook`; the others are those of `planner.api`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        near = " or ".join(one for one in __all__ if name.lower() in one.lower())
        hint = f"; did you mean {near}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"module 'planner' has no attribute {name!r}{hint}")
    module = "planner.notebook" if name in NOTEBOOK else "planner.api"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
