"""Head sizes that nobody measured on an accelerator: backward from published rates, and what is lent."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.formulas.attention import attention_extrapolated
from planner.inputs.load_hardware import load_accelerator
from planner.units import parse
from tests.cases import every
from tests.lab.kernels.attention import backward_efficiency
from tests.lab.kernels.heads import LENDERS, lent_heads

CURVES = Path(__file__).parents[2] / "hardware_profiles" / "curves"


def test_backward_of_narrow_heads_is_as_published() -> None:
    """J. Shah et al., arXiv:2407.08608, fig. 5 and 6, at 16k without a mask, over the 989 TFLOP/s of H100."""
    found = backward_efficiency("64", 561 / 989, 497 / 989, 648 / 989)
    assert found == pytest.approx(474 / 989, rel=0.01)
    # cuDNN of the same figures: 413 and 595 forward, 433 and 516 backward.
    assert backward_efficiency("64", 516 / 989, 413 / 989, 595 / 989) == pytest.approx(433 / 989, rel=0.1)


def test_backward_of_wide_heads_is_that_of_128_and_a_fast_narrow_one_gains_nothing() -> None:
    assert backward_efficiency("256", 0.5, 0.4, 0.6) == 0.5
    assert backward_efficiency("64", 0.5, 0.7, 0.6) == pytest.approx(0.5)


def entry(efficiency: str, half_keys: str) -> dict[str, object]:
    return {
        "efficiency": efficiency,
        "half_keys": half_keys,
        "shared_half_keys": "0",
        "half_queries_per_multiprocessor": "40",
        "sustained_ratio": "0.9",
        "launch": "5 us",
        "range": {"seq": [1024, 16384]},
        "backward_efficiency": "0.5",
        "backward_half_keys": "64",
        "kernel": "one",
    }


def test_a_head_size_is_lent_as_a_share_of_the_one_that_both_have() -> None:
    own = {"128": entry("0.6", "100")}
    lender = {"64": entry("0.4", "300"), "128": entry("0.8", "200")}
    lent = lent_heads(own, lender, "other")
    assert list(lent) == ["64"]
    assert (lent["64"]["efficiency"], lent["64"]["half_keys"]) == ("0.3", "150")
    # 1/0.5 + 0.7 (1/0.3 - 1/0.6) = 3.1667
    assert parse(lent["64"]["backward_efficiency"], "-") == pytest.approx(1 / 3.1667, rel=1e-3)
    assert (lent["64"]["lender"], lent["64"]["standing"]) == ("other", "borrowed")
    assert lent_heads({"64": entry("0.6", "1")}, lender, "other") == {}


@every("name", LENDERS)
def test_lent_head_sizes_are_priced_and_say_that_nobody_measured_them(name: str) -> None:
    content = yaml.safe_load((CURVES / f"{name}.yaml").read_text("utf-8"))
    attention = load_accelerator(name).kernels.attention
    lent, own = content["attention_lent"]["bf16"], content["attention"]["bf16"]
    assert not set(lent) & set(own)
    assert {str(size) for size in attention} == set(lent) | set(own)
    for size, curve in attention.items():
        assert attention_extrapolated(4096.0, curve) == float(str(size) in lent)
    # FlashAttention-2 and trtllm_mha are slower at 64 than at 128 wherever both were measured.
    assert attention[64].rate < attention[128].rate
