"""Parallelism planner and cost-model auto-tuner for training large models.

The names below are the public ones; each is loaded when it is first used: ``import planner`` is light.
"""

from __future__ import annotations

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

__all__ = [
    "Estimate",
    "Infeasible",
    "InputError",
    "Job",
    "Plan",
    "PlannerError",
    "UnsupportedPlan",
    "Workload",
    "as_document",
    "emit_plan",
    "estimate_plan",
    "explain_plan",
    "load_hardware",
    "load_model",
    "load_plan",
    "load_runtime",
    "save_plan",
    "search_plans",
    "simulate_plan",
    "synthesise_schedule",
    "validate_runs",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("planner.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
