"""One typed question: texts, values, keywords about a job and a grid ask the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.cli.sweep_cases import request_of as request_of_grid
from planner.errors import InputError
from planner.fields import ASKED_AXES
from planner.question.axes import read_axes
from planner.question.question import Question, question_about, read_question, request_of, single_of
from planner.question.reading import KEYWORDS, OPTIONS, Door, Reading
from planner.search.request import SLOWDOWN
from tests.cases import every

TEXTS: dict[str, Any] = {
    "model": "llama3-8b", "hardware": ["dgx-h100"], "gpus": "16", "seq_len": "2K", "global_batch": "1,024",
    "tp": "4", "zero": "1", "recompute": "full:2", "sequence_parallel": "true", "objective": "Memory",
    "slowdown": "1.5", "memory_limit": "64", "uniform": "true",
}  # fmt: skip
VALUES: dict[str, Any] = TEXTS | {
    "gpus": 16, "seq_len": 2048, "global_batch": 1024, "tp": 4, "zero": 1, "sequence_parallel": True,
    "objective": "memory", "slowdown": 1.5, "memory_limit": 64 * 2.0**30, "uniform": True,
}  # fmt: skip
WRONG: dict[str, Any] = {"tp": 2.5, "cp": "x", "zero": 4, "schedule": 3, "sequence_parallel": "perhaps"}


def asked(said: dict[str, Any], door: Door = OPTIONS) -> Question:
    reading = Reading(door)
    question = read_question(said, reading)
    reading.finish()
    assert question is not None
    return question


def test_texts_and_values_ask_the_same() -> None:
    assert asked(TEXTS) == asked(VALUES, KEYWORDS)


def test_every_door_asks_the_same_of_a_search() -> None:
    request = request_of(asked(TEXTS))
    job = planner.Job(request.model, request.clusters[0], 16, request.workload)
    axes = {axis.name: VALUES[axis.name] for axis in ASKED_AXES if axis.name in VALUES}
    said = {name: VALUES[name] for name in ("objective", "slowdown", "memory_limit", "uniform")}
    about = question_about(job, ["megatron-lm"], said, axes, Reading(KEYWORDS))
    assert request_of(about) == request
    grid = {name: value if isinstance(value, str) else value[0] for name, value in TEXTS.items()}
    grid = {"models" if name == "model" else name: text for name, text in grid.items() if name != "slowdown"}
    assert request_of_grid(grid) == replace(request, slowdown=SLOWDOWN)


def test_a_degree_is_a_whole_number_from_the_door_on() -> None:
    question = asked({name: TEXTS[name] for name in ("model", "hardware", "gpus", "tp")})
    assert question.axes == {"tp": 4}
    assert type(question.axes["tp"]) is int
    _, plan, _, _ = single_of(question)
    assert (plan.tp, plan.dp) == (4.0, 4.0)


@every(("door", "prefix"), [(OPTIONS, "--"), (KEYWORDS, "")])
def test_all_faults_are_told_at_once_in_the_words_of_the_door(door: Door, prefix: str) -> None:
    reading = Reading(door)
    assert read_axes(WRONG, reading) == {}
    places = [f"{prefix}{name if not prefix else name.replace('_', '-')}" for name in WRONG]
    assert sorted(problem.where for problem in reading.problems) == sorted(places)


def test_a_wrong_keyword_is_named_with_what_it_was() -> None:
    job = planner.Job(asked(TEXTS).model, planner.load_hardware("dgx-h100"), 16, planner.Workload())
    with pytest.raises(InputError) as caught:
        planner.search_plans(job, tp=2.5, micro_batch=0, top=0, oom_risk=2.0, slowdown=2.0)
    words = {problem.where for problem in caught.value.problems}
    assert words == {"slowdown", "top", "oom_risk", "tp", "micro_batch"}


@every(("method", "batch"), [(None, 512), ("lora", 32), ("qlora", 32)])
def test_adapters_are_trained_with_a_batch_of_fine_tuning_where_nobody_says(
    method: str | None, batch: int
) -> None:
    said = {"model": "llama3-8b", "hardware": ["dgx-h100"], "gpus": "8", "method": method}
    question = asked(said)
    assert question.workload.global_batch == question.defaults["global_batch"] == batch
    assert asked(said | {"global_batch": "64"}).workload.global_batch == 64


@every(("model", "tokens"), [("gpt2", 1024), ("tinyllama-1.1b", 2048), ("llama3-8b", 4096)])
def test_no_sequence_is_longer_than_a_model_has_positions_where_nobody_says(model: str, tokens: int) -> None:
    question = asked({"model": model, "hardware": ["dgx-h100"], "gpus": "8"})
    assert question.workload.seq_len == question.defaults["seq_len"] == tokens


@every(("clusters", "precision"), [(["t4"], "fp16"), (["v100", "dgx-h100"], "fp16"), (["dgx-h100"], "bf16")])
def test_where_nobody_says_it_computes_in_a_format_that_every_accelerator_has(
    clusters: list[str], precision: str
) -> None:
    said = {"model": "llama3-8b", "hardware": clusters, "gpus": "8"}
    question = asked(said)
    assert question.workload.precision == question.defaults["precision"] == precision
    if precision != "bf16":
        with pytest.raises(InputError, match="nearest: fp16"):
            asked(said | {"precision": "bf16"})


@every(("optimizer", "runtimes"), [("adam8bit", "fsdp"), ("muon", "megatron-lm"), ("lion", "megatron-lm")])
def test_who_steps_by_an_optimizer_is_asked_where_nobody_says(optimizer: str, runtimes: str) -> None:
    """Lion is in no runtime's files: the usual one is asked, and says what it has."""
    said = {"model": "llama3-8b", "hardware": ["dgx-h100"], "gpus": "8", "optimizer": optimizer}
    assert asked(said).defaults["runtime"] == runtimes


@every(("cluster", "gpus"), [("h100", 1), ("8xH100", 8)])
def test_a_single_plan_is_for_as_many_accelerators_as_are_named(cluster: str, gpus: int) -> None:
    reading = Reading(OPTIONS)
    question = read_question({"model": "llama3-8b", "hardware": [cluster]}, reading, several=False)
    assert question is not None
    assert question.gpu_counts == (gpus,)
