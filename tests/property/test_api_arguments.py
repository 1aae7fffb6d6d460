"""Every public name of the Python API refuses values of other types with an error of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.arguments import is_of
from planner.cli.options import JobOptions, PlanOptions
from planner.cli.search import search as search_command
from planner.fields import ASKED_AXES
from planner.inputs.workload import Workload
from tests.cases import every

JOB = planner.Job(
    planner.load_model("llama3-8b"),
    planner.load_hardware("dgx-h100"),
    8,
    planner.Workload(seq_len=2048, global_batch=8),
)
ANSWER = planner.estimate_plan(JOB, tp=8)

GOOD: dict[str, dict[str, Any]] = {
    "Job": vars(JOB),
    "Plan": {"tp": 8.0, "recompute": "none"},
    "Workload": {"seq_len": 2048, "global_batch": 8},
    "as_document": {"answer": ANSWER},
    "emit_plan": {"answer": ANSWER, "folder": "never-written"},
    "estimate_plan": {"job": JOB, "tp": 8},
    "explain_plan": {"answer": ANSWER},
    "load_hardware": {"name": "dgx-h100"},
    "load_model": {"text": "llama3-8b"},
    "load_plan": {"path": "no-such-file.yaml"},
    "load_runtime": {"name": "fsdp"},
    "save_plan": {"answer": ANSWER, "path": "never-written.yaml"},
    "search_plans": {"job": JOB, "tp": 8, "top": 1, "uniform": True},
    "simulate_plan": {"answer": ANSWER},
    "synthesise_schedule": {"pp": 2, "microbatches": 2, "pass_times": [[1.0, 1.0, 1.0]]},
    "validate_runs": {"path": "no-such-file.csv"},
    "list_models": {},
    "list_hardware": {},
    "estimate_plans": {"job": JOB, "tp": [4, 8]},
    "compare_plans": {"plans": {"one": ANSWER, "two": ANSWER}},
    "sweep_plans": {"jobs": {"one": JOB}, "tp": 8},
    "plan_mfu": {"answer": ANSWER, "seconds": 1.0},
    "plan_goodput": {"answer": ANSWER, "save": 60.0, "restart": 300.0},
}
"""Arguments that each name takes."""

WRONG: tuple[Any, ...] = (
    None,
    "8",
    "llama3-8b",
    3,
    -1,
    2.5,
    True,
    (1, "2"),
    ["a"],
    {"tp": 8},
    object(),
    JOB,
    str,
)


def wrong_arguments() -> Iterator[tuple[str, str, object]]:
    """Yield a name, one of its parameters, and a value that is not of its kind."""
    for name in GOOD:
        function = getattr(planner, name)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                yield from ((name, parameter.name, value) for value in WRONG)


def test_all_public_functions_and_constructors_are_tried() -> None:
    errors = {"Infeasible", "InputError", "PlannerError", "UnsupportedPlan"}
    made_by_the_library = {"Estimate", "Explanation", "PricedColumns"}
    assert set(GOOD) == set(planner.__all__) - errors - made_by_the_library


def test_wrong_arguments_end_in_an_error_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for name, parameter, value in wrong_arguments():
        try:
            getattr(planner, name)(**GOOD[name] | {parameter: value})
        except planner.PlannerError as error:
            refused += isinstance(error, planner.InputError)
        except Exception as error:
            pytest.fail(f"{name}({parameter}={value!r}): {type(error).__name__}: {error}")
    assert refused > 500


@every("value", WRONG, ids=lambda value: type(value).__name__)
def test_wrong_axes_end_in_an_error_of_the_library(value: object) -> None:
    for axis in (
        "tp",
        "pp",
        "zero",
        "recompute",
        "stage_layers",
        "no_such_axis",
        "offload",
        "sequence_parallel",
    ):
        try:
            planner.estimate_plan(JOB, **{axis: value})  # type: ignore[arg-type]
        except planner.PlannerError:
            continue


@every("field", Workload.model_fields)
@every("value", [{}, object(), [1], -3, ""], ids=lambda value: type(value).__name__)
def test_wrong_fields_of_a_workload_say_which(field: str, value: object) -> None:
    if value == "" and isinstance(planner.Workload().model_dump()[field], str):
        return
    with pytest.raises(planner.InputError, match=f"Workload: {field}"):
        planner.Workload(**{field: value})  # type: ignore[arg-type]


@every(
    ("name", "arguments", "found"),
    [
        ("Job", {"gpus": "8"}, "missing a required argument: 'model'"),
        ("Job", {"model": "llama3-8b"}, "missing a required argument: 'hardware'"),
        ("Job", {**GOOD["Job"], "gpu": 8}, "got an unexpected keyword argument 'gpu'"),
        ("Plan", {"tensor": 8}, "got an unexpected keyword argument 'tensor'"),
        ("Workload", {"seq_length": 1}, "unknown key"),
        ("load_model", {}, "missing a required argument: 'text'"),
        ("estimate_plan", {"tp": 8}, "missing a required argument: 'job'"),
    ],
)
def test_missing_and_unknown_arguments_are_wrong_input(
    name: str, arguments: dict[str, Any], found: str
) -> None:
    with pytest.raises(planner.InputError, match=re.escape(found)):
        getattr(planner, name)(**arguments)


def test_messages_say_where_what_and_what_would_do() -> None:
    with pytest.raises(planner.InputError) as caught:
        planner.Job(gpus="8", model="llama3-8b", hardware=3, workload=None)  # type: ignore[arg-type]
    model, hardware, gpus, workload = str(caught.value).splitlines()[:4]
    assert model.endswith("nearest: planner.load_model('llama3-8b')")
    assert hardware == "Job: hardware: found 3; expected a HardwareProfile from planner.load_hardware"
    assert gpus == "Job: gpus: found '8'; expected a whole number; nearest: 8"
    assert workload.startswith("Job: workload: found None")
    with pytest.raises(planner.InputError, match=r"Workload: seq_length: .* nearest: seq_len, seq_lens$"):
        planner.Workload(seq_length=1)  # type: ignore[call-arg]
    with pytest.raises(planner.InputError, match="Job: gpus: found 0"):
        planner.Job(JOB.model, JOB.hardware, 0, JOB.workload)


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    assert is_of(np.int64(8), int)
    assert is_of(np.float64(0.5), float)
    assert not is_of(np.float64(0.5), int)


ELSEWHERE = {
    "shown": "as_document",
    "synthesize": "synthesise_schedule",
    "front": "search_plans with memory_limit",
    "save": "save_plan",
    "emit": "emit_plan",
    "smoke": "emit_plan, whose scripts all start a smoke run with SMOKE=1",
    "target": "emit_plan",
    "launcher": "emit_plan",
    "force": "save_plan",
    "flags": "emit_plan, whose scripts hold them",
    "failing": "plan_goodput",
    "context": "the command alone",
    "near": "the command alone",
    "sites": "planner.search.sites.rank.search_sites",
    "job": "Job, Workload, load_hardware, load_runtime",
    "plan": "**axes",
}
"""Options of the command that the function leaves to another one."""


def test_a_search_has_every_option_of_the_command_or_says_where_it_is() -> None:
    options = set(inspect.signature(inspect.unwrap(search_command)).parameters)
    parameters = set(inspect.signature(planner.search_plans).parameters)
    assert options - set(ELSEWHERE) == parameters - {"job", "runtime", "memory_limit", "axes"}
    assert set(ELSEWHERE) <= options
    axes = {field for field in PlanOptions.__dataclass_fields__}
    assert axes == {axis.name for axis in ASKED_AXES}
    known = {*Workload.model_fields, *inspect.signature(planner.load_hardware).parameters, "memory_limit"}
    named = {"model", "hardware", "gpus", "runtime", "changes", "target_version"}  # runtime: NAME@RELEASE
    asked = set(JobOptions.__dataclass_fields__) - named
    assert asked - known == {"global_batch_tokens", "nodes"}


def test_a_search_takes_several_runtimes_and_a_bound_on_time() -> None:
    small = planner.search_plans(JOB, ["megatron-lm", "fsdp"], top=3)
    assert {plan.runtime.name for plan in small.plans} <= {"megatron-lm", "fsdp"}
    quick = planner.search_plans(JOB, objective="memory", slowdown=1.05, top=1).plans[0]
    slow = planner.search_plans(JOB, objective="memory", slowdown=float("inf"), top=1).plans[0]
    assert slow.peak <= quick.peak
    assert quick.step < slow.step
    with pytest.raises(planner.InputError, match="slowdown"):
        planner.search_plans(JOB, slowdown=2)
    with pytest.raises(planner.InputError, match="slowdown"):
        planner.search_plans(JOB, objective="memory", slowdown=0.5)
