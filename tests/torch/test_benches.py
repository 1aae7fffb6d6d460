"""What a bench runs is what it says: its results are those of the operation in plain arithmetic."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from planner.profile.benches import attention, elementwise, experts, gemm, scan
from planner.profile.device import open_device
from planner.profile.nvml import SLOWDOWNS
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


def states_by_token(q: Any, k: Any, v: Any, decay: Any, write: Any = None) -> Any:
    """Linear attention with a decay, or the gated delta rule, as they are defined: one token at a time."""
    state, out = torch.zeros(*q.shape[:1], q.shape[2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[1]):
        state = state * torch.exp(decay[:, t])[..., None, None]
        new = v[:, t]
        if write is not None:
            new = write[:, t, :, None] * (new - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], new)
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    return torch.stack(out, 1)


@pytest.mark.parametrize("kind", ["linear", "delta"])
def test_chunks_give_what_one_token_after_the_other_gives(kind: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 24, 3, 8) / 8**0.5 for _ in range(3))
    decay, write = -torch.rand(2, 24, 3), -torch.rand(2, 24, 3)
    more = (write,) if kind == "delta" else ()
    found = scan.SCANS[kind].written_out(torch, q, k, v, decay, *more, chunk=8)
    torch.testing.assert_close(found, states_by_token(q, k, v, decay, *(-one for one in more)))


@pytest.mark.parametrize("kind", scan.SCANS)
def test_both_passes_of_a_scan_run_again_and_again(kind: str) -> None:
    """A gradient for each input; a later token changes nothing of an earlier one's result."""
    shape = {"batch": 1, "heads": 2, "seq": 256, "width": 16}
    gradients: Any = scan.prepare(scan.point(f"{kind}-written-backward", shape), CPU)
    assert len(gradients()) == len(gradients())
    assert all(bool(one.isfinite().all()) and one.abs().sum() > 0 for one in gradients())
    inputs = scan.SCANS[kind].inputs(CPU, scan.point(f"{kind}-written-forward", shape), False)
    tokens = -1 if kind in ("selective", "conv") else 1
    changed = inputs[0].clone()
    changed.select(tokens, 200).add_(1.0)
    before, after = (
        scan.SCANS[kind].written_out(torch, one, *inputs[1:], chunk=scan.SCANS[kind].chunk)
        for one in (inputs[0], changed)
    )
    torch.testing.assert_close(before.narrow(tokens, 0, 200), after.narrow(tokens, 0, 200))
    assert not torch.equal(before, after)


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
    """A device whose time is the sum of what it was given to do, so that the machine's load is no matter."""
    clock = [0.0]

    def call() -> None:
        clock[0] += 2e-3

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = clock[0]

        def elapsed_time(self, other: Event) -> float:
            return (other.at - self.at) * 1e3

    slept: list[int] = []
    cuda = SimpleNamespace(Event=Event, _sleep=slept.append, synchronize=lambda _index: None)
    device = replace(CPU, kind="cuda", torch=SimpleNamespace(cuda=cuda))
    timing = measure([call], EventClock(device), 0.05)
    assert timing.seconds == pytest.approx(2e-3, rel=1e-6)
    assert slept
    assert all(cycles > 0 for cycles in slept)


def on_gpu(capability: float) -> Any:
    """A GPU of PyTorch's own pretence: shapes, types and layouts are checked, nothing is computed."""
    return replace(CPU, kind="cuda", memory=8e10, cache=5e7, multiprocessors=132, capability=capability)


@pytest.mark.parametrize(
    ("capability", "dtype", "variant"),
    [
        (9.0, "bf16", "product"), (9.0, "fp16", "product"), (9.0, "fp8", "product"), (9.0, "fp8", "rowwise"),
        (10.0, "mxfp8", "product"), (10.0, "nvfp4", "product"),
    ],
)  # fmt: skip
def test_products_have_the_layouts_that_gpus_ask_for(capability: float, dtype: str, variant: str) -> None:
    one = gemm.point("gemm", dtype, {"m": 512, "n": 1024, "k": 2048}, variant)
    with FakeTensorMode():
        result: Any = gemm.prepare(one, on_gpu(capability))()
    assert (tuple(result.shape), result.device.type) == ((512, 1024), "cuda")
    assert result.dtype == (torch.float16 if dtype == "fp16" else torch.bfloat16)


def test_the_pretence_refuses_a_wrong_layout() -> None:
    """Else the test above would prove nothing: a second operand by rows, and scales of a wrong number."""
    with FakeTensorMode():
        left, right, turned = (
            torch.empty(size, device="cuda", dtype=torch.float8_e4m3fn)
            for size in ((16, 32), (32, 64), (64, 32))
        )
        one = torch.ones((), device="cuda")
        with pytest.raises(RuntimeError, match="col"):
            torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)
        with pytest.raises(RuntimeError, match=r"[Ss]cal"):
            torch._scaled_mm(left, turned.t(), one.expand(3), one, out_dtype=torch.bfloat16)


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_experts_run_by_shape_with_and_without_one_kernel(capability: float) -> None:
    one = experts.point({"tokens": 1024, "hidden": 2048, "inter": 1024, "topk": 2, "experts": 8})
    device = replace(on_gpu(capability), kind="meta")
    result: Any = experts.prepare(one, device)()
    assert tuple(result.shape) == (1024, 2048)


@pytest.mark.parametrize("backend", sorted(attention.PACKAGES))
def test_attention_packages_are_called_with_their_own_axes(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch, sequence, heads, head size; flash-attn 3 also returns the sums of its softmax."""
    asked: list[Any] = []

    def attend(query: Any, key: Any, value: Any, **options: Any) -> Any:
        asked.append((query.shape, key.shape, options))
        result = query * key.sum() * value.sum()
        return (
            (result, result)
            if backend == "package3"
            else result.flatten(2)
            if backend == "engine"
            else result
        )

    class Layer:
        def __init__(self, heads: int, size: int, **options: Any) -> None:
            asked.append((heads, size, options))

        def __call__(self, *tensors: Any) -> Any:
            return attend(*tensors)

    module = SimpleNamespace(flash_attn_func=attend, DotProductAttention=Layer)
    monkeypatch.setattr(attention.importlib, "import_module", lambda _name: module)
    shape = {"batch": 2, "heads": 4, "kv_heads": 2, "seq": 16, "head_dim": 32}
    gradients: Any = attention.prepare(attention.point(f"{backend}-causal-backward", shape), CPU)()
    assert [tuple(one.shape) for one in gradients] == [(2, 16, 4, 32), (2, 16, 2, 32), (2, 16, 2, 32)]
    if backend == "engine":
        assert asked[0] == (4, 32, {
            "num_gqa_groups": 2, "attention_dropout": 0.0, "qkv_format": "bshd", "attn_mask_type": "causal",
        })  # fmt: skip
    else:
        assert asked[0][2] == {"causal": True}


def test_every_backend_is_one_that_torch_knows() -> None:
    from torch.nn.attention import SDPBackend

    assert set(attention.BACKENDS.values()) < set(SDPBackend.__members__)
    efficient = [one for one in attention.coarse_points(on_gpu(9.0)) if one.variant.startswith("efficient")]
    assert efficient
    assert all(one.shape["heads"] == one.shape["kv_heads"] for one in efficient)


def test_the_drivers_library_has_every_function_that_is_asked() -> None:
    pynvml = pytest.importorskip("pynvml")
    for name in (
        "nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlSystemGetDriverVersion", "nvmlDeviceGetMigMode",
        "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetCurrentClocksEventReasons", "NVMLError", "NVML_CLOCK_SM",
    ):  # fmt: skip
        assert hasattr(pynvml, name), name
    bits = {
        pynvml.nvmlClocksEventReasonHwSlowdown, pynvml.nvmlClocksEventReasonSwThermalSlowdown,
        pynvml.nvmlClocksEventReasonHwThermalSlowdown, pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    }  # fmt: skip
    assert bits == set(SLOWDOWNS)
    assert pynvml.NVML_TEMPERATURE_GPU == 0


def test_torch_has_every_private_name_that_is_called() -> None:
    for name in ("_scaled_mm", "_grouped_mm", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn_x2"):
        assert hasattr(torch, name), name
    for name in ("_sleep", "Event", "synchronize", "mem_get_info", "memory_reserved", "max_memory_allocated",
                 "reset_peak_memory_stats", "memory_allocated", "empty_cache", "init"):  # fmt: skip
        assert hasattr(torch.cuda, name), name
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.AcceleratorError, RuntimeError)


def test_a_compiled_function_may_be_walked_back_again_and_again() -> None:
    from planner.profile.check_kernels import compiled

    weight = torch.randn(16, 16, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = compiled(torch, lambda data: torch.tanh(data @ data).sin())(weight)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(result.sum(), weight, retain_graph=True)
    exact = torch.tanh(weight @ weight).sin().sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(exact, weight)[0], rtol=1e-4, atol=1e-4)
