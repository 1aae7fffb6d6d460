"""Number formats: bits with their scales, as the formats are defined."""

from __future__ import annotations

import pytest

from planner.techniques.precision import PRECISIONS


@pytest.mark.parametrize(
    ("name", "bits", "scale_bits", "block"),
    [
        ("bf16", 16, 0, 1),
        ("fp16", 16, 0, 1),
        ("fp8", 8, 0, 1),
        ("mxfp8", 8, 8, 32),  # arXiv:2310.10537, table 1: E8M0 for 32 elements
        ("nvfp4", 4, 8, 16),  # arXiv:2509.25149, sec. 2: E4M3 for 16 elements
    ],
)
def test_a_saved_input_is_an_element_with_its_share_of_a_scale(
    name: str, bits: int, scale_bits: int, block: int
) -> None:
    assert PRECISIONS[name].saved_input_bytes * 8 == bits + scale_bits / block


@pytest.mark.parametrize(
    "name", [name for name, entry in PRECISIONS.items() if entry.linear not in ("bf16", "fp16")]
)
def test_low_bit_weights_are_kept_twice(name: str) -> None:
    """A copy and its transpose, since the products of forward and backward read along other axes."""
    entry = PRECISIONS[name]
    assert entry.weight_copies_bytes == 2 * entry.saved_input_bytes
    assert entry.activation == "bf16"


def test_only_fp16_scales_its_loss() -> None:
    """arXiv:1710.03740, sec. 3.2."""
    assert [name for name, entry in PRECISIONS.items() if entry.loss_scaling] == ["fp16"]
    assert all(PRECISIONS[name].weight_copies_bytes == 0 for name in ("bf16", "fp16"))
