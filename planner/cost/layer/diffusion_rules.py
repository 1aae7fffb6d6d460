"""The rules of a diffusion transformer: what may be split, and how attention within an axis is shared."""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.block_parts import core_parts, diffusion_of, is_shared, mixer_of
from planner.inputs.block_parts import Axis
from planner.inputs.model import Attention, ModelSpec
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Mask, Rule, divides

SWITCHING = "dsp"
"""The method that switches the split between axes."""

EXCHANGING = (SWITCHING, "all-to-all")
"""Methods by which ranks can share attention within an axis."""


def shared_cores(model: ModelSpec) -> tuple[Attention, ...]:
    """Return attention of each core for which ranks that share a sample exchange something."""
    if model.diffusion is None:
        return ()
    return tuple(mixer_of(core) for core in core_parts(model) if is_shared(model.diffusion, core))


def diffusion_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of a diffusion transformer; of others, that they have no axes to switch."""
    method = case.context.name
    axes = _shared_axes(case.model)
    switched = Rule(
        "axes-to-switch",
        np.less_equal(plan.cp, 1) | (axes == {"space", "time"}),
        lambda: (f"cp method {method}", "a model whose attention keeps to space or to time", "all-to-all"),
    )
    rules = [switched] if method == SWITCHING else []
    if case.model.diffusion is None:
        return rules
    return [*rules, *_split_rules(plan, case), *_axis_rules(plan, case, bool(axes - {None}))]


def _shared_axes(model: ModelSpec) -> set[Axis | None]:
    """Return the axes of attention that ranks share, None for that over a whole sample."""
    if model.diffusion is None:
        return set()
    return {core.axis for core in core_parts(model) if is_shared(model.diffusion, core)}


def _one(rule: str, option: str, degree: Num) -> Rule:
    return Rule(
        rule,
        np.equal(degree, 1),
        lambda: (
            f"{option} {degree:g}",
            f"{option} 1: no runtime splits a diffusion transformer so",
            f"{option} 1",
        ),
    )


def _split_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules on degrees and workload."""
    diffusion, work = diffusion_of(case.model), case.workload
    text = diffusion.text_tokens if diffusion.text == "joint" else 0
    return [
        _one("diffusion-layers-whole", "tp", plan.tp),
        _one("diffusion-unpiped", "pp", plan.pp),
        Rule(
            "diffusion-trains-whole",
            work.method == "full",
            lambda: (
                f"method {work.method}",
                "full: adapters of diffusion transformers are not priced",
                "full",
            ),
        ),
        Rule(
            "latents-beside-text",
            work.seq_len > text,
            lambda: (
                f"seq_len {work.seq_len} with {text} tokens of text in it",
                "latents and text together: 4096 + 512 of an image of 1024 x 1024 under FLUX.1",
                f"{text + 4096}",
            ),
        ),
        Rule(
            "text-divides",
            divides(plan.cp, float(text)) if text else np.greater(plan.cp, 0),
            lambda: (f"cp {plan.cp:g}", f"a divisor of the {text} tokens of text", "cp 1"),
        ),
        Rule(
            "samples-unpacked",
            work.seq_lens is None and work.document_tokens is None,
            lambda: ("samples of unequal lengths", "samples of one length", "no --seq-lens"),
        ),
    ]


def _axis_rules(plan: Plan, case: Case, has_axes: bool) -> list[Rule]:
    """Return the rules of attention within an axis: whole frames, and a method that shares it."""
    frames, seq_len = diffusion_of(case.model).frames, case.workload.seq_len
    if not has_axes:
        return []
    switched: Mask = divides(plan.cp, float(frames)) & divides(plan.cp, seq_len / frames)
    return [
        Rule(
            "frames-are-whole",
            seq_len % frames == 0,
            lambda: (f"seq_len {seq_len}", f"a multiple of {frames} frames", f"{frames * 1024}"),
        ),
        Rule(
            "axes-are-shared",
            np.less_equal(plan.cp, 1) | (case.context.name in EXCHANGING),
            lambda: (f"cp method {case.context.name}", f"one of {', '.join(EXCHANGING)}", SWITCHING),
        ),
        Rule(
            "axes-divide",
            np.less_equal(plan.cp, 1) | (case.context.name != SWITCHING) | switched,
            lambda: (
                f"cp {plan.cp:g}",
                f"a divisor of {frames} frames and of the {seq_len // frames} places of each",
                "all-to-all",
            ),
        ),
    ]
