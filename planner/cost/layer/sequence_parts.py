"""Layers that run again and backward in parts of the sequence (StreamBP): seconds, bytes, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.attention_backward import FIRST_NORM
from planner.cost.layer.operators import Operator, Pricer, largest, total
from planner.formulas.sequence_parts import prefix_runs, scores_of_parts
from planner.inputs.model import Attention
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Rule

CAUSAL: Final = 0.5
"""Share of the square of scores that a causal kernel computes, and so its time is for. [-]"""
BOTH_PASSES: Final = 3.0
"""FLOPs of forward and backward over those of forward. [-]"""
MASK_BYTES: Final = 2.0
"""Bytes of an element of a part's mask, which is a tensor in 16 bit. [byte]"""
GRADIENTS: Final = 4.0
"""Bytes of the gradients of a layer's result and input, both whole, for one of their elements. [byte]"""


class Repeated(NamedTuple):
    """What parts run beside a layer's recompute and backward: seconds and FLOPs."""

    seconds: Num
    flops: Num


def repeated_in_parts(operators: Sequence[Operator], parts: float) -> Repeated:
    """Return what the parts of a layer repeat of each other, and what of scores a mask throws away.

    Each part runs the first norm over the whole sequence, and projects keys and values of all tokens up to
    its end.

    References
    ----------
    .. [1] github.com/Ledzy/StreamBP, ``streambp/stream_model.py``, ``StreamDecoderLayer`` and
       ``StreamAttention_v2``: a layer's norm takes all of ``hidden_states``; parts after the first have a
       mask in place of a causal kernel.
    """
    seconds: Num = 0.0
    flops: Num = 0.0
    for operator in operators:
        if operator.name == FIRST_NORM:
            more: Num = parts - 1.0
        elif operator.name == "qkv":
            more = (prefix_runs(parts) - 1.0) * _pairs(operator)
        elif operator.module == "core_attn":
            more = scores_of_parts(parts) / CAUSAL - 1.0
        else:
            continue
        seconds = seconds + more * (operator.forward + operator.backward)
        flops = flops + more * BOTH_PASSES * operator.flops
    return Repeated(seconds, flops)


def part_bytes(operators: Sequence[Operator], parts: float, pricer: Pricer) -> Num:
    """Bytes of a layer while its last part runs backward, the layer's input among them. [byte]

    Whole are what the first norm leaves, keys and values with their gradients, and the gradients of the
    layer's result and input; all else is there for one part, with its mask.

    References
    ----------
    .. [1] Q. Luo et al., "StreamBP," arXiv:2506.03077, 2025, sec. 3.2.2.
    """
    whole: Num = 0.0
    pairs: Num = 0.0
    for operator in operators:
        if operator.name == FIRST_NORM:
            whole = whole + operator.kept + operator.saved
        elif operator.name == "qkv":
            pairs = _pairs(operator) * operator.saved
    everything = total(operators, "kept") + total(operators, "saved")
    part = (everything - whole - pairs + largest(operators, "result")) / parts
    mask = MASK_BYTES * float(pricer.case.workload.seq_len) ** 2 / parts
    states = GRADIENTS * pricer.local_tokens * pricer.case.model.hidden
    return whole + 2.0 * pairs + states + part + mask


def _pairs(projection: Operator) -> Num:
    """Share of keys and values, which are alike, in the product that makes them and queries. [-]"""
    return 2.0 * projection.second


def parts_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of a sequence in parts: causal attention over all of it, on one rank, in no runtime.

    References
    ----------
    .. [1] github.com/Ledzy/StreamBP wraps models of transformers for trainers of its own.
    """
    if case.recompute.parts <= 1.0:
        return []
    mixers = [one for block in case.model.blocks.values() for one in block.mixers or (None,)]
    plain = all(
        isinstance(mixer, Attention) and mixer.causal and not mixer.window and not mixer.chunked
        for mixer in mixers
    )
    return [
        Rule(
            "parts-are-causal",
            plain,
            lambda: (
                f"recompute {plan.recompute} of {case.model.name}",
                "layers of causal attention over the whole sequence",
                "full",
            ),
        ),
        Rule(
            "parts-on-one-rank",
            np.equal(plan.cp, 1),
            lambda: (f"recompute {plan.recompute} with cp {plan.cp:g}", "cp 1", "full"),
        ),
        Rule(
            "parts-have-a-runner",
            False,
            lambda: (
                f"recompute {plan.recompute}",
                "recompute that a runtime has: none runs backward in parts of a sequence (its authors' code "
                "wraps models of transformers, with ZeRO 1 and 2)",
                "full",
            ),
        ),
    ]
