"""How layers are named to Megatron-core: which stage holds them, and which of them differ."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.runtimes._offered import stage_layers


def pattern(flags: Iterable[bool]) -> str:
    """Return per-layer flags as the list expression that Megatron-LM evaluates.

    Examples
    --------
    >>> pattern([False, True, True])
    '([0]*1+[1]*2)'
    """
    runs = [f"[{flag:d}]*{len(list(group))}" for flag, group in groupby(flags)]
    return f"({'+'.join(runs)})"


def stage_letters(plan: Plan, model: ModelSpec) -> list[str]:
    """Return each virtual stage in the model's order: E embedding, t layer, m prediction layer, L loss."""
    stages = ["t" * layers for layers in stage_layers(plan, model)]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * (model.prediction.layers if model.prediction else 0) + "L"
    return stages


def layout_string(plan: Plan, model: ModelSpec) -> str:
    """Return the argument of ``--pipeline-model-parallel-layout``, equal letters and equal stages folded.

    Megatron-LM unfolds groups first and letters second, and only then splits at separators: a folded group
    keeps the separators of its stages.
    """
    stages = stage_letters(plan, model)
    parts = []
    for letters, group in groupby(stages[:-1]):
        count = len(list(group))
        parts.append(f"({_folded(letters)}|)*{count}" if count > 1 else f"{_folded(letters)}|")
    return "".join([*parts, _folded(stages[-1])])


def _folded(letters: str) -> str:
    runs = [(letter, len(list(group))) for letter, group in groupby(letters)]
    return "".join(letter * count if count < 4 else f"{letter}*{count}" for letter, count in runs)


def is_even(plan: Plan, model: ModelSpec) -> bool:
    """Whether all virtual stages of a scalar plan hold as many layers."""
    return len(set(stage_layers(plan, model))) == 1
