"""LoRA and QLoRA: parameter counts and bits that the papers print."""

from __future__ import annotations

import pytest

from planner.techniques.methods import METHODS
from tests.cases import every


@every(
    ("layers", "hidden", "matrices", "rank", "printed"),
    [
        (96, 12288, 2, 1, 4.7e6),  # table 4: GPT-3, query and value
        (96, 12288, 2, 8, 37.7e6),  # table 4
        (96, 12288, 1, 8, 18.9e6),  # table 5: one matrix, "18M"
        (96, 12288, 4, 2, 18.9e6),  # table 5: all four
        (12, 768, 2, 8, 0.3e6),  # table 2: RoBERTa base
        (24, 1024, 2, 8, 0.8e6),  # table 2: RoBERTa large
        (48, 1536, 2, 16, 4.7e6),  # table 2: DeBERTa XXL
    ],
)
def test_trained_parameters_of_lora(
    layers: int, hidden: int, matrices: int, rank: int, printed: float
) -> None:
    """arXiv:2106.09685, tables 2, 4 and 5, with the ranks of appendix D."""
    counted = layers * matrices * METHODS["lora"].adapter_params(hidden, hidden, rank)
    assert counted == pytest.approx(printed, abs=0.05e6)


def test_adapters_are_two_matrices() -> None:
    assert METHODS["lora"].adapter_params(4096, 14336, 16) == 4096 * 16 + 16 * 14336


def test_bits_of_qlora() -> None:
    """arXiv:2305.14314, sec. 3: 4 bits; scales of 64 in 8 bit, theirs of 256 in 32 bit."""
    scales = 8 / 64 + 32 / (64 * 256)
    assert METHODS["qlora"].frozen_weight_bytes * 8 == pytest.approx(4 + scales, abs=1e-4)
    # "about 0.37 bits per parameter (approximately 3 GB for a 65B model)", against 32 bits for each 64.
    saved = (4 + 32 / 64) / 8 - METHODS["qlora"].frozen_weight_bytes
    assert saved * 65e9 == pytest.approx(3e9, rel=0.02)


def test_a_quantised_weight_is_read_and_rebuilt() -> None:
    assert METHODS["qlora"].dequantise_bytes == METHODS["qlora"].frozen_weight_bytes + 2
    assert METHODS["lora"].dequantise_bytes == 0


def test_full_training_has_no_adapters() -> None:
    assert METHODS["full"].trains_base
    assert not METHODS["lora"].trains_base
    assert METHODS["full"].adapter_params(4096, 4096, 16) == 0
