"""Number formats: bits with their scales, as the formats are defined."""

from __future__ import annotations

import pytest

from planner.techniques.precision import PRECISIONS
from tests.cases import every


@every(
    ("name", "bits", "scale_bits", "block"),
    [
        ("bf16", 16, 0, 1),
        ("fp16", 16, 0, 1),
        ("fp8", 8, 0, 1),
        ("fp8-delayed", 8, 0, 1),
        ("mxfp8", 8, 8, 32),  # arXiv:2310.10537, table 1: E8M0 for 32 elements
        ("nvfp4", 4, 8, 16),  # arXiv:2509.25149, sec. 2: E4M3 for 16 elements
    ],
)
def test_a_saved_input_is_an_element_with_its_share_of_a_scale(
    name: str, bits: int, scale_bits: int, block: int
) -> None:
    assert PRECISIONS[name].saved_input_bytes * 8 == bits + scale_bits / block


@every("name", [name for name, entry in PRECISIONS.items() if entry.linear not in ("bf16", "fp16")])
def test_low_bit_weights_are_kept_twice(name: str) -> None:
    """A copy and its transpose, since the products of forward and backward read along other axes."""
    entry = PRECISIONS[name]
    assert entry.weight_copies_bytes == 2 * entry.saved_input_bytes
    assert entry.activation == "bf16"


def test_weights_of_16_bit_need_no_copies() -> None:
    assert all(PRECISIONS[name].weight_copies_bytes == 0 for name in ("bf16", "fp16"))


@every(
    ("name", "one_layout", "both"),
    [
        # 16 bit read, low bits with their scales written; trained, in the second layout too.
        ("mxfp8", 2 + 33 / 32, 2 + 2 * 33 / 32),
        # Two layouts also need the largest element of the whole tensor, which is a read of its own.
        ("nvfp4", 2 + 9 / 16, 2 + 2 + 2 * 9 / 16),
        ("fp8-block", 3, 4),
        ("fp8", 1, 1),
        ("fp8-delayed", 1, 1),
        ("bf16", 1, 1),
    ],
)
def test_casts_of_training_write_both_layouts_where_scales_follow_an_axis(
    name: str, one_layout: float, both: float
) -> None:
    """Transformer Engine, pytorch/csrc/quantizer.cpp; one scale for the whole tensor serves either layout."""
    assert PRECISIONS[name].training_casts == pytest.approx(both / one_layout)
