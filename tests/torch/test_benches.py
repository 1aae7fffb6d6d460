"""What a bench runs is what it says: its results are those of the operation in plain arithmetic."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from planner.profile.benches import attention, elementwise, experts, gemm
from planner.profile.device import open_device
from planner.profile.timing import EventClock, measure

pytestmark = pytest.mark.torch

CPU = open_device("cpu")


def test_a_quantised_product_is_the_product_within_eight_bits() -> None:
    torch.manual_seed(0)
    result: Any = gemm.prepare(gemm.point("gemm", "fp8", {"m": 64, "n": 128, "k": 256}), CPU)()
    torch.manual_seed(0)
    left, right = torch.randn(64, 256).bfloat16(), torch.randn(128, 256).bfloat16()
    exact = left.float() @ right.float().T
    assert (result.float() - exact).abs().mean() / exact.abs().mean() < 0.06


def test_one_kernel_for_all_experts_gives_what_one_for_each_gives() -> None:
    one = experts.point({"tokens": 64, "hidden": 128, "inter": 64, "topk": 2, "experts": 4})
    results: list[Any] = []
    for capability in (0.0, experts.GROUPED_FROM):
        torch.manual_seed(0)
        results.append(experts.prepare(one, replace(CPU, capability=capability))())
    torch.testing.assert_close(*results)
    assert results[0].abs().max() > 0


@pytest.mark.parametrize("kind", ["causal", "full"])
def test_attention_looks_at_what_its_kind_says(kind: str) -> None:
    shape = {"batch": 1, "heads": 4, "kv_heads": 2, "seq": 16, "head_dim": 32}
    torch.manual_seed(0)
    result: Any = attention.prepare(attention.point(f"chosen-{kind}-forward", shape), CPU)()
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 16, 32).bfloat16().float() for heads in (4, 2, 2))
    key, value = key.repeat_interleave(2, dim=1), value.repeat_interleave(2, dim=1)
    scores = query @ key.transpose(-1, -2) / 32**0.5
    if kind == "causal":
        scores = scores.masked_fill(torch.ones(16, 16, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(result.float(), scores.softmax(-1) @ value, rtol=0.05, atol=0.02)


def test_a_backward_pass_gives_a_gradient_for_each_input() -> None:
    shape = {"batch": 1, "heads": 4, "kv_heads": 2, "seq": 16, "head_dim": 32}
    gradients: Any = attention.prepare(attention.point("chosen-causal-backward", shape), CPU)()
    assert [tuple(one.shape) for one in gradients] == [(1, 4, 16, 32), (1, 2, 16, 32), (1, 2, 16, 32)]


def test_pairs_are_turned_by_their_angle() -> None:
    """A turn by 90 degrees takes (left, right) to (-right, left)."""
    data = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    turned = elementwise.turned(torch, data, torch.zeros(1, 4), torch.ones(1, 4))
    assert turned.tolist() == [[-3.0, -4.0, 1.0, 2.0]]


@pytest.mark.parametrize("variant", sorted(elementwise.OPERATORS))
def test_every_operator_runs_again_and_again(variant: str) -> None:
    call = elementwise.OPERATORS[variant](CPU, 8, 16)
    call()
    call()


def test_events_of_a_device_give_the_time_between_them() -> None:
    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = time.perf_counter()

        def elapsed_time(self, other: Event) -> float:
            return (other.at - self.at) * 1e3

    slept: list[int] = []
    cuda = SimpleNamespace(Event=Event, _sleep=slept.append, synchronize=lambda _index: None)
    device = replace(CPU, kind="cuda", torch=SimpleNamespace(cuda=cuda))
    timing = measure([lambda: time.sleep(2e-3)], EventClock(device), 0.05)
    assert timing.seconds == pytest.approx(2e-3, rel=0.5)
    assert slept
    assert all(cycles > 0 for cycles in slept)
