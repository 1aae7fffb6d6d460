"""Named rules that a plan keeps: a mask over a batch, and for one plan what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from planner import numeric
from planner.dataclasses import dataclass
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.numeric import PLAIN, Num
from planner.plan import DEGREES, Plan, even_split, prediction_stage

Mask = bool | np.bool_ | NDArray[np.bool_]


RANKS = tuple(name for name in DEGREES if name != "num_microbatches")
"""Degrees that must be whole numbers whatever the batch."""


@dataclass(frozen=True)
class Violation:
    """A broken rule of one plan, as the contract's JSON has it."""

    rule: str
    found: str
    expected: str
    nearest: str = ""


@dataclass(frozen=True)
class Rule:
    """A condition that every legal plan meets."""

    name: str
    """Short and stable; reports count plans by it."""
    holds: Mask
    """Whether it is met, for each plan of the batch."""
    tell: Callable[[], tuple[str, str, str]]
    """Makes (found, expected, nearest) in words; called only for a scalar plan that breaks the rule."""


class ModelRule(Rule):
    """A rule on the model alone: no layout keeps it where one does not."""


def violations(rules: Iterable[Rule]) -> tuple[Violation, ...]:
    """Return what a scalar plan breaks, all at once."""
    return tuple(Violation(rule.name, *rule.tell()) for rule in rules if not numeric.all(rule.holds))


def refusal(runtime: str, faults: Iterable[Violation]) -> str:
    """Return why a runtime cannot run a plan, one line for each rule with the nearest that it can."""
    return "\n".join(
        f"{runtime} cannot run this plan: {fault.rule}: {fault.found}; needs {fault.expected}; "
        f"nearest: {fault.nearest}"
        for fault in faults
    )


def divides(part: Num, whole: Num) -> Mask:
    """Whether ``part`` divides ``whole`` without remainder; both are whole numbers below 2^52."""
    quotient = np.asarray(whole, dtype=float) / part
    return np.equal(quotient, np.floor(quotient))


def divisors(whole: int) -> list[int]:
    """Return the divisors of a positive whole number, ascending."""
    small = [n for n in range(1, int(whole**0.5) + 1) if whole % n == 0]
    return sorted({*small, *(whole // n for n in small)})


def nearest_divisors(value: Num, whole: int) -> str:
    """Return the divisors of ``whole`` next to ``value``, joined by ``or``."""
    known = divisors(whole)
    below = [n for n in known if n <= value][-1:]
    above = [n for n in known if n > value][:1]
    return " or ".join(str(n) for n in below + above)


def _is_whole(degree: Num) -> Mask:
    if isinstance(degree, PLAIN):
        return np.bool_(degree >= 1 and degree % 1 == 0)
    return np.greater_equal(degree, 1) & np.equal(np.floor(degree), degree)


def _whole(plan: Plan) -> Mask:
    holds: Mask = np.bool_(True)
    for name in RANKS:
        holds = holds & _is_whole(getattr(plan, name))
    return holds


def structural_rules(
    plan: Plan, model: ModelSpec, workload: Workload, gpus: int, bare_ends: bool = False
) -> list[Rule]:
    """Return the rules that hold for any runtime: degrees make up the cluster, the batch and the model.

    ``bare_ends`` says whether a stage may hold the embedding, prediction layers or the loss alone.
    """
    return [
        _whole_rule(plan),
        _world_rule(plan, gpus),
        _batch_rule(plan, workload.global_batch),
        _stages_rule(plan, model, bare_ends),
        *_split_rules(plan, model, bare_ends),
        *_expert_rules(plan, model),
        *_position_rules(model, workload.seq_len),
        *_image_rules(plan, model, workload),
    ]


def _position_rules(model: ModelSpec, seq_len: int) -> list[Rule]:
    """Return the rule that a table of learned positions has a row for each of a sequence."""
    positions = model.max_positions
    if not model.learned_positions or positions is None:
        return []
    return [
        Rule(
            "positions-cover-sequence",
            seq_len <= positions,
            lambda: (
                f"sequence length {seq_len}",
                f"at most the {positions} learned positions of {model.name}",
                f"--seq-len {positions}",
            ),
        )
    ]


def _image_rules(plan: Plan, model: ModelSpec, workload: Workload) -> list[Rule]:
    """Return the rule that a sequence has a place for each token that is made of its images.

    An encoder that a decoder attends to makes none.
    """
    encoder = model.encoder
    if encoder is None or model.crosses:
        return []
    each, length = max(1, encoder.patches // encoder.merge), workload.seq_len
    taken, fit = workload.images * each, length // each

    def tell() -> tuple[str, str, str]:
        longer = f"--seq-len {ceil(taken / plan.tp) * plan.tp:.0f}"
        return (
            f"{workload.images} x {each} tokens of images in a sequence of {length}",
            f"at most {fit}" if fit else f"a sequence of {each} or more tokens",
            f"--images {fit} or {longer}" if fit else longer,
        )

    return [Rule("images-fit-sequence", taken <= length, tell)]


def _whole_rule(plan: Plan) -> Rule:
    return Rule(
        "degrees-are-whole",
        _whole(plan),
        lambda: (
            ", ".join(
                f"{name} {getattr(plan, name):g}" for name in RANKS if not _is_whole(getattr(plan, name))
            ),
            "whole numbers from 1",
            "1",
        ),
    )


def _world_rule(plan: Plan, gpus: int) -> Rule:
    world = plan.tp * plan.pp * plan.cp * plan.dp
    return Rule(
        "degrees-make-gpus",
        np.equal(world, gpus),
        lambda: (
            f"tp {plan.tp:.0f} · pp {plan.pp:.0f} · cp {plan.cp:.0f} · dp {plan.dp:g} = {world:g}",
            f"{gpus} GPUs",
            f"dp {nearest_divisors(gpus / (plan.tp * plan.pp * plan.cp), gpus)}",
        ),
    )


def _batch_rule(plan: Plan, batch: int) -> Rule:
    sequences = plan.micro_batch * plan.num_microbatches * plan.dp
    return Rule(
        "batch-divides",
        np.equal(sequences, batch) & _is_whole(plan.num_microbatches),
        lambda: (
            f"global batch {batch} over micro-batch {plan.micro_batch:.0f} · dp {plan.dp:g}",
            "a whole number of micro-batches",
            _batch_remedy(plan, batch),
        ),
    )


def _batch_remedy(plan: Plan, batch: int) -> str:
    """Name the nearest micro-batch, or the nearest global batch where none divides."""
    if batch % plan.dp == 0:
        return f"micro-batch {nearest_divisors(plan.micro_batch, int(batch // plan.dp))}"
    whole = float(plan.micro_batch * plan.dp)
    return f"global batch {max(1, round(batch / whole)) * whole:.0f}"


def most_stages(model: ModelSpec, bare_ends: bool, split: Sequence[int] | None = None) -> int:
    """Return how many virtual stages a model can be cut into: one for each layer, and for bare ends.

    Bare ends are the embedding, the loss, and extra prediction layers before the loss. A ``split`` that is
    given says for itself which of its stages are empty.
    """
    if not bare_ends:
        return model.num_layers
    return max(model.num_layers + (3 if model.prediction else 2), len(split or ()))


def _stages_rule(plan: Plan, model: ModelSpec, bare_ends: bool) -> Rule:
    most = most_stages(model, bare_ends, plan.stage_layers)
    predicts = ", the prediction layers" if model.prediction else ""
    extra = f", the embedding{predicts} and the loss" if bare_ends else ""
    return Rule(
        "stages-have-layers",
        plan.pp * plan.vpp <= most,
        lambda: (
            f"pp {plan.pp:.0f} · vpp {plan.vpp:.0f} stages",
            f"at most {most}, one for each layer{extra}",
            f"pp {min(int(plan.pp), most)}, vpp {max(1, int(most // plan.pp))}",
        ),
    )


def _split_rules(plan: Plan, model: ModelSpec, bare_ends: bool) -> list[Rule]:
    """Return the rule on a given split: one entry for each virtual stage, and all layers placed."""
    split, layers = plan.stage_layers, model.num_layers
    if split is None and not plan.prediction_apart:
        return []
    split = split or ()
    right = min(split, default=-1) >= 0 and sum(split) == layers
    predicts = model.prediction is not None
    place = prediction_stage(split, predicts, plan.prediction_apart)
    if plan.prediction_apart:
        right = right and bare_ends and predicts and place == len(split) - 2
    busy: Mask = all(split)
    if bare_ends and split:
        held = [*split]
        for stage in (0, -1, place):
            held[stage] += 1
        busy = np.isin(
            plan.pp, [pp for pp in divisors(len(held)) if all(any(held[at::pp]) for at in range(pp))]
        )
    least = "something on every rank" if bare_ends else "one layer or more"
    if plan.prediction_apart:
        least += ", prediction layers (m) before a loss alone (0),"

    def tell() -> tuple[str, str, str]:
        stages = int(plan.pp * plan.vpp)
        return (
            f"stage layers {plan.split_text or 'none'}",
            f"{stages} stages with {least} that add up to {layers}",
            "-".join(map(str, even_split(layers, stages))),
        )

    return [Rule("split-has-all-stages", np.equal(plan.pp * plan.vpp, len(split)) & right & busy, tell)]


def _expert_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    counts = [ffn.experts for ffn in model.expert_kinds]
    ranks = plan.tp * plan.cp * plan.dp
    holds: Mask = plan.ep <= 1 if not counts else np.bool_(True)
    for count in counts:
        holds = np.logical_and(holds, divides(plan.ep, count))
    return [
        Rule(
            "experts-divide",
            holds,
            lambda: (
                f"ep {plan.ep:.0f}",
                f"a divisor of {min(counts)} experts" if counts else "1, since the model has no experts",
                nearest_divisors(plan.ep, min(counts)) if counts else "1",
            ),
        ),
        Rule(
            "expert-mesh-divides",
            divides(plan.ep * plan.etp, ranks),
            lambda: (
                f"ep {plan.ep:.0f} · etp {plan.etp:.0f}",
                f"a divisor of tp · cp · dp = {ranks:g}",
                nearest_divisors(plan.ep * plan.etp, max(1, int(ranks))),
            ),
        ),
    ]
