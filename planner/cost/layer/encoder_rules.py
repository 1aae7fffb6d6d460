"""Rules of a model with an encoder: of images before its tokens, or of a sequence that its decoder reads."""

from __future__ import annotations

import math

import numpy as np

from planner.cost.case import Case
from planner.plan import Plan
from planner.rules import Rule, divides, nearest_divisors


def encoder_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of a model with an encoder: whole images on a rank, and one first stage."""
    encoder = case.model.encoder
    if encoder is None:
        return _projector_rules(case)
    if case.model.crosses:
        return [*_cross_rules(plan, case), *_projector_rules(case)]
    split = case.runtime.splits_encoder(case.model)
    heads = math.gcd(*(block.attention.heads for block in encoder.blocks.values() if block.attention), 0)
    return [
        *_projector_rules(case),
        Rule(
            "encoder-sees-whole-images",
            np.equal(plan.cp, 1),
            lambda: (f"cp {plan.cp:.0f} with an encoder", "cp 1: its images are not split", "cp 1"),
        ),
        Rule(
            "encoder-heads-divide",
            divides(plan.tp, float(heads)) | (case.runtime.builds_encoder(case.model) and not split),
            lambda: (
                f"tp {plan.tp:.0f}",
                f"a divisor of the {heads} heads of the encoder",
                f"tp {nearest_divisors(plan.tp, heads)}",
            ),
        ),
        Rule(
            "projector-beside-whole-training",
            not case.workload.train_projector or case.workload.method in ("full", "projector"),
            lambda: (
                f"projectors trained with method {case.workload.method}",
                "full: projectors that learn beside adapters are not priced",
                "--method full",
            ),
        ),
        Rule(
            "encoder-on-one-stage",
            case.schedule.routes == 1,
            lambda: (
                f"schedule {plan.schedule} with an encoder",
                "a schedule of one direction: the encoder stands on one first stage",
                "schedule 1f1b",
            ),
        ),
    ]


def _projector_rules(case: Case) -> list[Rule]:
    """Return the rule that a model whose projectors alone learn has some."""
    there = case.model.encoder is not None and bool(case.model.encoder.projectors)
    return [
        Rule(
            "projectors-are-there",
            case.workload.method != "projector" or there,
            lambda: ("no projectors", "an encoder with projectors, such as qwen3-vl-8b's", "--method full"),
        )
    ]


def _cross_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of an encoder beside a decoder that attends to it: whole on every rank, one source."""
    work = case.workload
    whole = np.equal(plan.tp, 1) & np.equal(plan.cp, 1) & np.equal(plan.pp, 1)
    packed = work.document_tokens or work.seq_lens
    return [
        Rule(
            "cross-attention-unsplit",
            whole,
            lambda: (
                f"tp {plan.tp:g}, cp {plan.cp:g}, pp {plan.pp:g} with an encoder and a decoder",
                "tp 1, cp 1, pp 1: how these split attention between the two is not priced",
                "tp 1, cp 1, pp 1",
            ),
        ),
        Rule(
            "cross-attention-of-one-source",
            work.images == 1 and not packed and not work.freeze_encoder,
            lambda: (
                "several sources, packed sequences or a frozen encoder beside a decoder",
                "one source for each sequence, both trained",
                "--images 1, and no lengths of documents",
            ),
        ),
        Rule(
            "cross-attention-trains-whole",
            work.method == "full",
            lambda: (f"method {work.method} with an encoder and a decoder", "full training", "--method full"),
        ),
        Rule(
            "cross-attention-recomputed-whole",
            plan.recompute in ("none", "full"),
            lambda: (
                f"recompute {plan.recompute} with an encoder and a decoder",
                "none, or all layers of both",
                "--recompute full",
            ),
        ),
    ]
