"""Bytes that memory-bound operators move, against a count of what each kernel reads and writes."""

from __future__ import annotations

import math

import pytest

from planner.formulas import elementwise
from planner.formulas.elementwise import Traffic
from tests.cases import every

HALF = 2.0
"""Bytes of a 16-bit element. [byte]"""


def moved(reads: int, writes: int) -> float:
    return (reads + writes) * HALF


@every(
    ("traffic", "forward", "backward"),
    [
        # Reads x, writes y; backward reads x and dy, writes dx and, of as many elements, the parts of dw.
        (elementwise.NORM[True], moved(1, 1), moved(2, 2)),
        # Reads gate and up, writes their product; backward reads them and the gradient, writes two gradients.
        (elementwise.GATED[True], moved(2, 1), moved(3, 2)),
        # Reads x, writes y; backward reads x and dy, writes dx.
        (elementwise.PLAIN[True], moved(1, 1), moved(2, 1)),
        (elementwise.ROTARY[True], moved(1, 1), moved(1, 1)),
        # Reads a row, writes it; the gradient is read, sorted, and summed into the table.
        (elementwise.EMBEDDING, moved(1, 1), moved(2, 2)),
    ],
)
def test_one_kernel_moves_what_it_reads_and_writes(traffic: Traffic, forward: float, backward: float) -> None:
    assert traffic[:2] == (forward, backward)


def test_addition_reads_two_and_writes_one() -> None:
    assert elementwise.RESIDUAL[True].forward == moved(2, 1)


def test_a_norm_that_reads_fp32_moves_a_copy_twice_as_wide() -> None:
    """Forward x is cast, read and y written; backward both kernels read dy and the copy, dx is cast back."""
    wide, half = 4.0, HALF
    forward = (half + wide) + (wide + half)
    backward = (half + wide + wide) + (half + wide) + (wide + half)
    norm, cast = elementwise.NORM[True], elementwise.NORM_CAST
    whole = [norm.forward + cast.forward, norm.backward + cast.backward]
    assert whole == [forward, backward]


def test_dropout_also_moves_a_byte_of_mask() -> None:
    """Moves the element, and writes or reads one byte of mask (arXiv:2205.05198, sec. 4)."""
    assert (moved(1, 1) + 1, moved(1, 1) + 1) == elementwise.DROPOUT[:2]


def test_a_rotary_chain_moves_what_each_operator_reads_and_writes() -> None:
    """Of q cos + (-q2, q1) sin; backward each half is copied into zeros, and three gradients are added."""
    half = moved(1, 1) / 2
    forward = half + moved(1, 1) + 2 * moved(1, 1) + moved(2, 1)
    backward = 2 * moved(1, 1) + half + 2 * (moved(0, 1) + half) + 2 * moved(2, 1)
    assert (forward, backward) == elementwise.ROTARY_HALVES[:2]


def test_a_complex_rotary_product_is_cast_multiplied_and_cast_back() -> None:
    cast, product = HALF + 4.0, 4.0 + 4.0
    assert (2 * cast + product, 2 * cast + product) == elementwise.ROTARY_COMPLEX[:2]


def test_repeated_heads_are_written_and_their_gradients_read() -> None:
    """Keys and values that are fewer are written for every query head; the output is read and written."""
    assert (moved(1, 3), moved(2, 0)) == elementwise.HEAD_COPIES[True][:2]
    assert (moved(1, 1), moved(0, 0)) == elementwise.HEAD_COPIES[False][:2]


def test_a_square_above_zero_is_two_kernels_forward_and_four_back() -> None:
    """Bounded, then squared; its gradient is x to the first, twice that, times the gradient, and the mask."""
    backward = moved(1, 1) + moved(1, 1) + moved(2, 1) + moved(2, 1)
    assert (2 * moved(1, 1), backward) == elementwise.SQUARED_RELU[False][:2]


@every("name", ["NORM", "RESIDUAL", "ROTARY", "GATED", "PLAIN", "SQUARED_RELU"])
def test_a_chain_of_kernels_never_moves_less_than_one(name: str) -> None:
    table = getattr(elementwise, name)
    assert table[False].forward >= table[True].forward
    assert table[False].backward >= table[True].backward


def test_a_strided_kernel_is_bound_by_its_instructions_or_by_memory() -> None:
    """tile-ai/TileOPs#537: a bias added on an H200, 250e9 elements a second of 4 bytes."""
    h200 = elementwise.strided_seconds(132.0, 4.8e12 * 0.85)
    assert h200 + 4.0 / (4.8e12 * 0.85) == pytest.approx(1 / 250e9, rel=0.01)
    assert elementwise.strided_seconds(132.0, 0.5e12) == 0.0
    assert elementwise.strided_seconds(math.inf, 8e12) == 0.0
    # a higher memory rate and hardly more multiprocessors: a B200 loses more of it
    assert elementwise.strided_seconds(148.0, 6.8e12) * 6.8 > h200 * 4.8 * 0.85


def test_kernels_on_parts_and_repeated_vectors_are_counted() -> None:
    """Forward q cos, q' sin, half a negation and both halves joined; two bounds; a bias times a column."""
    assert elementwise.ROTARY_HALVES.strided == (1 + 1 + 0.5 + 1, 1 + 1 + 3 * 0.5)
    assert elementwise.CLAMP.strided == (2.0, 2.0)
    assert [each.strided for each in elementwise.EXPERT_BIAS.values()] == [(1.0, 2.0), (2.0, 3.0)]
    both = elementwise.GATED[True].beside(elementwise.CLAMP)
    assert both.strided == (2.0, 2.0)
    assert elementwise.GATED[True].beside(elementwise.GATED[True]).strided is None
