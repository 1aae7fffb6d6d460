"""Operators of a model of one's own that no known part has: products on their curve, others by roofline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planner.cost.layer.exchange import ACTIVATION_BYTES
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.inputs.block_parts import Extra, OtherExtra, ProductExtra

MODULE: Final = "extras"
"""The module of all of them: recompute of modules names none."""

MOVED: Final = traffic.Traffic(ACTIVATION_BYTES, 2.0 * ACTIVATION_BYTES, "residual")
"""Bytes of an element read or written: backward reads as much, and gradients, and writes as many. [byte]"""

BACKWARD: Final = 2.0
"""Arithmetic of a backward pass over that of forward, as of a product. [-]"""


def extra_operators(pricer: Pricer, extras: Iterable[Extra]) -> list[Operator]:
    """Price operators beside a layer's parts: every tensor-parallel rank runs them whole."""
    return [
        _product(pricer, one, place) if isinstance(one, ProductExtra) else _other(pricer, one, place)
        for place, one in enumerate(extras)
    ]


def _product(pricer: Pricer, one: ProductExtra, place: int) -> Operator:
    rows = pricer.tokens
    kept = ACTIVATION_BYTES * rows * one.inputs
    return pricer.linear(
        f"extra_{place}", MODULE, rows, float(one.inputs), float(one.outputs), kept, one.bias
    )


def _other(pricer: Pricer, one: OtherExtra, place: int) -> Operator:
    """Price an operator by what it moves and computes, whichever takes longer; all counts as extrapolated."""
    rows, case = pricer.tokens, pricer.case
    moved = pricer.elementwise(f"extra_{place}", MODULE, rows * one.moved, MOVED, params=float(one.params))
    worked = rows * one.flops / (case.peak_rate * case.derate)
    forward = moved.forward + worked
    backward = moved.backward + BACKWARD * worked
    return moved.with_values(
        forward=forward,
        backward=backward,
        saved=ACTIVATION_BYTES * rows * one.kept,
        flops=rows * one.flops,
        outside_forward=forward,
        outside_backward=backward,
    )
