"""Quantities with units go through every formula, and what comes out has the unit of its docstring."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from planner.formulas.pipeline import Pipe
from tests.cases import every
from tests.contract.formula_inputs import (
    NOT_RUN,
    RANGES,
    RECORDS,
    Formula,
    field_units,
    formulas,
    record,
    runnable,
)
from tests.contract.quantities import NONE, Quantity, UnitError, exponents, written

HIDDEN: dict[str, tuple[str, str]] = {
    "GemmCurve.rate": ("element^3/s", "a multiply-add, one of m·n·k, is the 2 FLOP of the code"),
    "GemmCurve.operand_bytes": ("byte/element^2", "bytes of each of m·k elements"),
    "GemmCurve.output_bytes": ("byte/element^2", "bytes of each of m·n elements"),
    "GemmCurve.quantisation_bytes": ("byte/element", "bytes of each element"),
    "GemmCurve.tiles": ("element", "rows and columns; the third number is an area"),
    "ExpertCurve.rate": ("element^3/s", "a multiply-add, one of r·n·k, is the 2 FLOP of the code"),
    "ExpertCurve.operand_bytes": ("byte/element^2", "bytes of each of n·k elements"),
    "ExpertCurve.output_bytes": ("byte/element^2", "bytes of each of m·n elements"),
    "ExpertCurve.token_bytes": ("-", "over the bytes for each element, as the bandwidth below"),
    "ExpertCurve.activation_bandwidth": (
        "element^2/s",
        "over the bytes that the code counts for each element",
    ),
    "AttentionCurve.rate": ("element^3/s", "a multiply-add, one of s·v·d, is 2 of the 4 FLOP of the code"),
    "AttentionCurve.backward_rate": ("element^3/s", "as forward"),
    "UnfusedAttention.rate": (
        "element^2/s",
        "d multiply-adds, 2 of the 4 FLOP of the code, for each of s·s scores",
    ),
    "UnfusedAttention.misaligned_rate": ("element^2/s", "as the other rate"),
    "UnfusedAttention.score_bytes": ("byte/element^2", "bytes of each of s·s scores"),
    "attention_flops.batch": (
        "FLOP/element^3",
        "a multiply-add, one of s·v·d, is 2 of the 4 FLOP of the code",
    ),
    "model_flops.tokens": ("FLOP/element", "each weight makes the 2 FLOP of the code for a token"),
    "model_flops.keys": ("-", "each element of the width meets a number of keys"),
    "ffn_params.hidden": ("-", "rows of a matrix whose columns are elements"),
    "strided_seconds.multiprocessors": ("1/s", "times the elements that each takes in a second"),
    "strided_seconds.bandwidth": ("1/s", "over the bytes that are counted for an element already"),
    "unfused_rate.head_dim": ("-", "is compared with a multiple of 8"),
    "unfused_attention_forward_seconds.head_dim": ("-", "is compared with a multiple of 8"),
    "unfused_attention_backward_seconds.head_dim": ("-", "is compared with a multiple of 8"),
}
"""Where a constant in the code has a unit of its own: what the quantity then stands for, and why."""

RESULTS: dict[str, tuple[str, str]] = {
    "unfused_rate": ("element^2/s", "the rates of the record, as above"),
    "delta_rule_flops": ("element^2", "a multiply-add, one of C·d or d·d, is 2 of the FLOP of the code"),
    "linear_attention_flops": ("element^2", "as of the delta rule"),
    "newton_schulz_flops": ("element^3", "a multiply-add, one of a·a·b, is 2 of the FLOP of the code"),
    "drain_half_k": (
        "FLOP/element",
        "the 2 FLOP of the code are those of one element of the inner dimension",
    ),
}


def quantity(value: float, where: str, unit: str) -> Quantity:
    return Quantity(value, exponents(HIDDEN[where][0] if where in HIDDEN and unit != "element^2" else unit))


def middle(name: str) -> float:
    low, high = RANGES.get(name, (8, 8))
    return float((low + high) / 2)


def arguments(one: Formula) -> dict[str, Any]:
    function = one.name.partition(".")[2]
    made: dict[str, Any] = {}
    for name, (annotation, unit) in one.parameters.items():
        kind = annotation.removeprefix("Sequence[").removesuffix("]")
        if kind in RECORDS:
            built = record(RECORDS[kind], quantity)
            made[name] = built if kind == annotation else [built]
        elif annotation == "int":
            made[name] = 3
        else:
            assert annotation == "Num", (
                f"{one.name}: {name} is a {annotation}: run it or say in NOT_RUN why not"
            )
            assert unit, f"{one.name}: {name} has no unit in brackets"
            made[name] = quantity(middle(name), f"{function}.{name}", unit)
    return made


@every("one", runnable(), ids=lambda one: one.name)
def test_the_unit_of_the_result_is_the_one_in_brackets(one: Formula) -> None:
    given = arguments(one)
    result = one.function(**given)
    assert one.unit is not None, "the docstring gives the result no unit in brackets"
    expected = exponents(RESULTS.get(one.name.partition(".")[2], (one.unit, ""))[0])
    found = result.unit if isinstance(result, Quantity) else NONE
    assert found == expected, f"{written(found)}, not {one.unit}"


def test_a_closed_form_of_the_pipeline_takes_the_record_of_its_symbols() -> None:
    symbols = {field.name for field in fields(Pipe)} | {"microbatches", "forward", "backward", "hop"}
    forms = [one for one in formulas() if one.name.endswith("bubble_seconds")]
    assert len(forms) > 15
    for one in forms:
        taken = {name: kind for name, (kind, _) in one.parameters.items()}
        assert taken.pop("pipe", None) == "Pipe", one.name
        assert symbols.isdisjoint(taken), one.name


@every("name", sorted(NOT_RUN))
def test_what_is_not_run_exists(name: str) -> None:
    assert name in {one.name.partition(".")[2] for one in formulas()}


def test_hidden_units_are_of_things_that_exist() -> None:
    known = {f"{kind.__name__}.{field}" for kind in RECORDS.values() for field in field_units(kind)}
    known |= {f"{one.name.partition('.')[2]}.{name}" for one in formulas() for name in one.parameters}
    assert set(HIDDEN) <= known


BYTES, SECONDS = Quantity(8.0, exponents("byte")), Quantity(2.0, exponents("s"))


def test_the_carrier_follows_arithmetic() -> None:
    rate = BYTES / SECONDS
    assert (rate.value, rate.unit) == (4.0, exponents("byte/s"))
    assert np.sqrt(rate * rate).unit == exponents("byte/s")
    assert np.where(SECONDS > 0, BYTES, np.inf).unit == exponents("byte")
    assert (2 * np.maximum(0.0, BYTES - BYTES) + BYTES).unit == exponents("byte")
    assert np.ceil(BYTES / BYTES).unit == NONE


@every(
    "wrong",
    [
        lambda: BYTES + SECONDS,
        lambda: BYTES + 1.0,
        lambda: np.maximum(BYTES, SECONDS),
        lambda: np.where(True, BYTES, SECONDS),
        lambda: BYTES > SECONDS,
        lambda: np.ceil(BYTES),
        lambda: np.power(BYTES, 2),
        lambda: np.interp(BYTES, (SECONDS, SECONDS), (BYTES, BYTES)),
        lambda: np.sum(BYTES),
    ],
)
def test_the_carrier_finds_mixed_units(wrong: Any) -> None:
    with pytest.raises(UnitError):
        wrong()
