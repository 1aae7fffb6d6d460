"""What optimizers keep and move, and the arithmetic of Muon, against what their authors print."""

from __future__ import annotations

import pytest

from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.optimizers._family import step_traffic


@pytest.mark.parametrize(
    ("name", "moments", "with_master"), [("adamw", 8, 12), ("sgd", 4, 8), ("muon", 4, 8)]
)
def test_bytes_kept_for_each_parameter(name: str, moments: int, with_master: int) -> None:
    assert OPTIMIZERS[name].kept_bytes() == with_master
    assert OPTIMIZERS[name].kept_bytes(master_bytes=0.0) == moments


def test_eight_bit_moments_are_a_quarter_of_fp32_and_a_scale_for_each_block() -> None:
    """arXiv:2110.02861, sec. 2.1 and 2.2: one byte, and one fp32 maximum for each block of 2,048."""
    moments = OPTIMIZERS["adam8bit"].kept_bytes(master_bytes=0.0)
    blocks, size = 1000, 2048
    assert moments * blocks * size == 2 * (blocks * size + blocks * 4)
    assert moments / OPTIMIZERS["adamw"].kept_bytes(master_bytes=0.0) == pytest.approx(0.25, rel=0.002)


def test_dtypes_that_the_user_names() -> None:
    """DeepSeek-V3 keeps both moments in bf16 beside an fp32 master (arXiv:2412.19437, sec. 3.3.3)."""
    assert OPTIMIZERS["adamw"].kept_bytes(state_bytes=2.0) == 8
    assert OPTIMIZERS["adamw"].kept_bytes(state_bytes=2.0, master_bytes=2.0) == 6


def test_a_step_reads_and_writes_the_states_once() -> None:
    # Reads master, two moments and gradient; writes master, two moments, and the 16-bit weight.
    read, written = 4 + 4 + 4 + 4, 4 + 4 + 4 + 2
    assert step_traffic(12.0, 4.0, 2.0, own_master=False) == read + written


def test_a_weight_that_is_its_own_master_is_read_too() -> None:
    # Reads weight, two moments and gradient; writes weight and two moments, as PyTorch's fused Adam.
    assert step_traffic(8.0, 4.0, 4.0, own_master=True) == 4 * 4 + 3 * 4


def newton_schulz_flops(small: int, large: int) -> int:
    """Count the products of one iteration: A = X X', A A, and (b A + c A A) X; two FLOPs a multiply-add."""
    return 2 * small * small * large + 2 * small**3 + 2 * small * small * large


@pytest.mark.parametrize("shape", [(512, 512), (512, 2048), (512, 40_000)])
def test_muon_is_never_charged_less_than_its_products(shape: tuple[int, int]) -> None:
    counted = 5 * newton_schulz_flops(*shape)
    charged = OPTIMIZERS["muon"].step_flops * shape[0] * shape[0] * shape[1]
    assert counted <= charged
    assert (counted == charged) == (shape[0] == shape[1])


@pytest.mark.parametrize(
    ("hidden", "tokens", "printed"), [(768, 524_288, 0.007), (16_384, 16_000_000, 0.005)]
)
def test_the_overhead_of_muon(hidden: int, tokens: int, printed: float) -> None:
    """K. Jordan, https://kellerjordan.github.io/posts/muon/: 0.7% for a GPT of 768, 0.5% for Llama 405B."""
    share = OPTIMIZERS["muon"].step_flops * hidden / (6 * tokens)
    assert share == pytest.approx(printed, abs=0.0005)
