"""Seeded random plans over models of each kind, from 1 to 16,384 accelerators, legal and not."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from planner.cost.case import case_of
from planner.cost.memory.weights import stage_weights
from planner.cost.stages import stages_of
from planner.cost.step.layout import piece_costs, priced_layers, ranks_of, with_split
from planner.cost.step.step import piece_totals
from planner.inputs.model import ModelSpec
from planner.plan import DEGREES, Plan, even_split
from planner.question.formats import formats
from planner.rules import Rule, Violation, divisors, structural_rules, violations
from planner.runtimes.family import Job, Runtime
from planner.runtimes.nanotron.rules import own_split
from planner.runtimes.offered import stage_layers
from tests.unit.runner_jobs import GPT2, MODELS, job, plan
from tests.validate.megatron.cases import cluster
from tests.validate.numerics import WITH_NUMBERS, known

WORLDS = (1, 2, 4, 8, 16, 24, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CLUSTERS = ("dgx-h100", "dgx-h100", "gb200-nvl72", "gh200-quad", "mi300x-8", "p4d.24xlarge", "a100-pcie-8")
"""Nodes of four and of eight, NVIDIA's and AMD's, with and without a switch between their accelerators."""

DTYPES = ("state_dtype", "master_dtype", "gradient_dtype")
CHOICES = (1, 1, 1, 2, 2, 4, 8, 3, 16)


class Case(NamedTuple):
    """A job, a plan for it, and what our rules say of the plan."""

    job: Job
    plan: Plan
    broken: tuple[Violation, ...]


def broken(runtime: Runtime, task: Job, layout: Plan) -> tuple[Violation, ...]:
    """Return the rules that a plan breaks, structural ones and the runtime's."""
    rules = structural_rules(layout, task.model, task.workload, task.gpus)
    return violations([*rules, _whole(layout), *runtime.rules(layout, task)])


def _whole(layout: Plan) -> Rule:
    """Return the rule that degrees are whole numbers, which a plan given in full already keeps."""
    degrees = {name: float(getattr(layout, name)) for name in DEGREES}
    split = {name: degree for name, degree in degrees.items() if degree % 1 or degree < 1}
    return Rule("whole-degrees", not split, lambda: (str(split), "whole degrees", ""))


def _draw_degrees(rng: random.Random, gpus: int) -> dict[str, int]:
    degrees, left = {}, gpus
    for axis in rng.sample(("tp", "pp", "cp"), 3):
        degree = rng.choice(CHOICES)
        degrees[axis] = degree if left % degree == 0 or rng.random() < 0.05 else 1
        left = max(1, left // degrees[axis])
    return degrees


def _with_work(rng: random.Random, task: Job, runtime: Runtime) -> Job:
    """Return the job in a format that both runtime and accelerator have, with an optimizer and its dtypes."""
    able = [name for name in formats(task.hardware) if name in runtime.precisions]
    work: dict[str, object] = {
        "precision": rng.choice([task.workload.precision, *able]),
        "optimizer": rng.choice(["adamw", *runtime.optimizers]),
    }
    if rng.random() < 0.3:
        work |= {name: "bf16" for name in DTYPES if rng.random() < 0.9}
    return dataclasses.replace(task, workload=task.workload.model_copy(update=work))


def draw(rng: random.Random, runtime: Runtime) -> Case:
    """Draw a plan; degrees mostly divide, names are mostly those that the runtime offers."""
    model = rng.choice(MODELS)
    gpus = rng.choice(WORLDS)
    short = model is GPT2
    if runtime.name in WITH_NUMBERS:
        model = known(model, runtime.name, random.Random(rng.random()))
    seq_len = 2048 if short else rng.choice((2048, 4096, 8192))
    task = job(model, gpus, seq_len=seq_len, global_batch=gpus * rng.choice((1, 2, 4, 8, 16)))
    task = dataclasses.replace(task, hardware=cluster(random.Random(rng.random()).choice(CLUSTERS)))
    work = (model.name, gpus, task.workload.seq_len, task.workload.global_batch)
    task = _with_work(random.Random(str(work)), task, runtime)
    degrees = _draw_degrees(rng, gpus)
    vpp = rng.choice((1, 1, 2, 3)) if degrees["pp"] > 1 else 1
    ep = rng.choice((1, 1, 2, 4, 8)) if "m" in model.blocks else 1
    axes: dict[str, object] = degrees | {"vpp": vpp, "ep": ep, "etp": rng.choice((1, 1, degrees["tp"]))}
    axes |= {"micro_batch": rng.choice((1, 1, 2, 4)), "zero": rng.choice(runtime.zero_stages)}
    for name, offers in (
        ("schedule", runtime.schedules), ("cp_method", runtime.cp_methods), ("recompute", runtime.recomputes),
        ("offload", runtime.offloads),
    ):  # fmt: skip
        axes[name] = rng.choice(offers)
    axes["sequence_parallel"] = rng.random() < 0.4
    layout = plan(task, **axes)
    if runtime.hybrid_sharding and layout.dp > 1 and rng.random() < 0.3:
        shards = rng.choice(divisors(max(1, int(layout.dp * layout.cp))))
        layout = layout.row((), zero_shards=float(shards))
    if degrees["pp"] > 1 and rng.random() < 0.3:
        layout = layout.row((), stage_layers=_uneven(rng, model.num_layers, int(layout.pp * layout.vpp)))
    if runtime.name == "nanotron" and 1 < layout.pp <= model.num_layers and rng.random() < 0.8:
        layout = layout.row((), stage_layers=own_split(model, int(layout.pp)))
    return Case(task, layout, broken(runtime, task, layout))


def _uneven(rng: random.Random, layers: int, stages: int) -> tuple[int, ...]:
    split = list(even_split(layers, stages))
    rng.shuffle(split)
    if stages > 1 and split[0] > 1:
        split[0], split[-1] = split[0] - 1, split[-1] + 1
    return tuple(split)


def cases(runtime: Runtime, seed: int, count: int, legal: bool) -> Iterator[Case]:
    """Yield ``count`` random cases that our rules accept, or that they refuse, of models that files say.

    Every second one of those that are refused breaks one rule alone, few of them the same.
    """
    rng = random.Random(seed)
    share, seen, found = 1 + count // 8, Counter[str](), 0
    while found < count:
        case = draw(rng, runtime)
        names = {fault.rule for fault in case.broken}
        if bool(names) == legal or runtime.unwritten(case.job.model):
            continue
        if names and found % 2 == 0:
            name = min(names)
            if len(names) > 1 or seen[name] == share:
                continue
            seen[name] += 1
        found += 1
        yield case


def stage_params(plan: Plan, model: ModelSpec) -> list[int]:
    """Return the parameters of each virtual stage, counted by the planner."""
    counts, first = [], 0
    for layers in stage_layers(plan, model):
        counts.append(sum(model.block_params(name) for name in model.layers[first : first + layers]))
        first += layers
    counts[0] += model.embedding_params + (0 if model.crosses else model.encoder_params)
    counts[-1] += model.head_params
    return counts


def priced_params(runtime: Runtime, asked: Case) -> list[int]:
    """Return the parameters that the price puts on a rank of each pipeline stage, before they are sharded."""
    case = case_of(asked.plan, asked.job, runtime)
    plan = with_split(asked.plan, case)
    ranks = ranks_of(plan, case)
    totals = piece_totals(ranks)
    costs = piece_costs(case, plan, priced_layers(case, plan, totals), totals)
    held = stage_weights(case, costs, stages_of(ranks))
    counts = np.broadcast_to(np.asarray(held.trained + held.expert_trained, float), (len(ranks),))
    assert np.all(counts == np.rint(counts))
    return [int(count) for count in counts]
