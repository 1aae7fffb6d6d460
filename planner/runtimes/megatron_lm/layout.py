"""How layers are named to Megatron-core: which stage holds them, and which of them differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from planner.inputs.model import ModelSpec
from planner.plan import Plan, prediction_stage
from planner.runtimes.offered import stage_layers


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
    if model.prediction is not None:
        place = prediction_stage(stage_layers(plan, model), True, plan.prediction_apart)
        stages[place] += "m" * model.prediction.layers
    stages[-1] += "L"
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


def layout_stages(text: str) -> list[str]:
    """Return the letters of each virtual stage of a layout string, as `layout_string` writes it or a user.

    Examples
    --------
    >>> layout_stages("Et*3|(t*4|)*2tmL"), layout_stages("Et,(t|)*2,m|L")
    (['Ettt', 'tttt', 'tttt', 'tmL'], ['Ett', 't', 'm', 'L'])
    """
    plain = text.replace(",", "").replace("\\", "")
    for pattern in (r"\(([^()]*)\)\*(\d{1,4})", r"([A-Za-z])\*(\d{1,4})"):
        for _ in range(100):
            fresh = re.sub(pattern, lambda match: match[1] * int(match[2]), plain)
            if fresh == plain or len(fresh) > 100_000:
                break
            plain = fresh
    return plain.split("|")


def layout_layers(text: str) -> list[int]:
    """Return the layers of each virtual stage of a layout string.

    Examples
    --------
    >>> layout_layers("Et*3|(t*4|)*2tmL"), layout_layers("Ett|(tt|)*2L")
    ([3, 4, 4, 1], [2, 2, 2, 0])
    """
    return [stage.count("t") for stage in layout_stages(text)]


def stands_apart(stages: Sequence[str]) -> bool:
    """Whether prediction layers stand beside decoder layers before a loss alone.

    Examples
    --------
    >>> [stands_apart(layout_stages(text)) for text in ("Ett|t|tm|L", "Ett|tt|m|L", "Ett|tt|mL")]
    [True, False, False]
    """
    return len(stages) > 2 and "m" in stages[-2] and "t" in stages[-2] and stages[-1] == "L"


def is_even(plan: Plan, model: ModelSpec) -> bool:
    """Whether all virtual stages of a scalar plan hold as many layers."""
    return len(set(stage_layers(plan, model))) == 1
