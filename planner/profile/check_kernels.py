"""PyTorch's own kernels for the operators of a plan: forward, and backward alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from planner.cost.layer.shapes import Shape
from planner.dataclasses import dataclass, replace
from planner.profile.benches.elementwise import turned
from planner.profile.benches.experts import even_groups, grouped_product
from planner.profile.benches.family import random_tensor
from planner.profile.device import Device
from planner.profile.health import roomy
from planner.profile.store import first_line
from planner.profile.timing import clock_of, measure
from planner.runtimes.traits import Traits

SAMPLE_SECONDS: Final = 0.05
HELD_SECONDS: Final = {"cpu": 0.0, "cuda": 0.5}
"""How long products and attention run before they count: predictions are of the speed that lasts. [s]"""
MOST_INPUT_SETS: Final = 8

Forward = Callable[[], Any]


@dataclass(frozen=True)
class Widths:
    """Row lengths that elementwise operators have in the model, and their kinds. [element]

    ``gradient`` is the dtype of the buffer that the gradient of a product's weight is added to, empty where
    no such weight learns.
    """

    hidden: int
    head_dim: int
    vocab: int
    gated: bool
    norm: str
    gradient: str = ""


@dataclass(frozen=True)
class Pair:
    """Times of one operator; None where a pass could not be measured, with the reason. [s]"""

    forward: float | None
    backward: float | None
    reason: str = ""


@dataclass(frozen=True)
class Kernel:
    """An operator ready to run: its forward pass, the tensors that get a gradient, and a weight's buffer.

    The last of the tensors is the weight whose gradient is added to the buffer, where there is one.
    """

    forward: Forward
    inputs: tuple[Any, ...]
    buffer: Any = None


def measured_pair(name: str, shape: Shape, widths: Widths, traits: Traits, device: Device) -> Pair:
    """Time both passes of an operator.

    ``widths``: row lengths of the model; ``traits``: whether the runtime fuses chains of kernels, which are
    then compiled where there is a GPU.
    """
    if shape.kind == "scan":
        return Pair(None, None, "a scan: planner profile --only scan times it")
    if not roomy(device, 8.0 * elements_of(shape)):
        return Pair(None, None, "too large for this device")
    if shape.kind == "attention" and not shape.sizes["whole"]:
        return Pair(None, None, "a window, or shared over context parallel ranks")
    try:
        kernels = [build(name, shape, widths, traits, device) for _ in range(input_sets(shape, device))]
        return _timed(kernels, device, HELD_SECONDS[device.kind] if shape.kind in PLAIN else 0.0)
    except Exception as error:
        return Pair(None, None, first_line(error)[:120])


def input_sets(shape: Shape, device: Device) -> int:
    """Return how many input sets it takes to be twice the size of the cache, on a GPU."""
    if device.is_cpu:
        return 1
    return int(min(MOST_INPUT_SETS, max(1.0, -(-2 * device.cache // (2 * elements_of(shape))))))


def elements_of(shape: Shape) -> float:
    """Elements of the largest tensors of an operator. [element]"""
    sizes = shape.sizes
    if shape.kind == "elementwise":
        return 3 * sizes["elements"]
    if shape.kind == "attention":
        return 8 * sizes["batch"] * sizes["heads"] * sizes["seq"] * sizes["qk_dim"]
    weights = sizes["inputs"] * sizes["outputs"] * sizes.get("experts", 1.0)
    return 2 * (weights + sizes["rows"] * (sizes["inputs"] + sizes["outputs"]))


def _timed(kernels: Sequence[Kernel], device: Device, hold: float) -> Pair:
    forward = measure([kernel.forward for kernel in kernels], clock_of(device), SAMPLE_SECONDS, hold).seconds
    results = [kernel.forward() for kernel in kernels]
    if not results[0].requires_grad:
        return Pair(forward, None, "nothing to differentiate")
    calls = [_backward(kernel, result, device) for kernel, result in zip(kernels, results, strict=True)]
    return Pair(forward, measure(calls, clock_of(device), SAMPLE_SECONDS, hold).seconds)


def _backward(kernel: Kernel, result: Any, device: Device) -> Forward:
    """Return the backward pass through a graph that is kept, with the addition of a weight's gradient."""
    torch = device.torch
    pulled = torch.randn_like(result)
    learned = [tensor for tensor in kernel.inputs if tensor.requires_grad]

    def passed() -> Any:
        gradients = torch.autograd.grad(result, learned, pulled, retain_graph=True)
        return gradients if kernel.buffer is None else kernel.buffer.add_(gradients[-1])

    return passed


def build(name: str, shape: Shape, widths: Widths, traits: Traits, device: Device) -> Kernel:
    """Return an operator on random data.

    Raises `KeyError` if no kernel is known for it.
    """
    if shape.kind in PLAIN:
        return _with_buffer(PLAIN[shape.kind](shape, device), shape, widths, device)
    family = next((key for key in ELEMENTWISE if key in name), None)
    if family is None:
        raise KeyError(f"no kernel of PyTorch is known for {name}")
    function, tensors = ELEMENTWISE[family](shape.sizes["elements"], widths, device)
    fused = {
        "norm": traits.kernels.fused_norm,
        "activation": traits.kernels.fused_activation,
        "rotary": traits.kernels.fused_rope,
    }
    if not device.is_cpu and (traits.kernels.compiled or fused.get(family, False)):
        function = compiled(device.torch, function)
    return Kernel(lambda: function(*tensors), tensors)


def _with_buffer(kernel: Kernel, shape: Shape, widths: Widths, device: Device) -> Kernel:
    """Return a product with the buffer of its weight's gradient, as prices have it."""
    if shape.kind == "attention" or not widths.gradient:
        return kernel
    buffer = device.torch.zeros_like(kernel.inputs[-1], dtype=device.dtype(widths.gradient))
    return replace(kernel, buffer=buffer)


def compiled(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function so that its graph may be walked back more than once.

    Since 2.6 a compiled graph may give away buffers that it saved at the first walk, unless told not to.
    """
    config: Any = importlib.import_module("torch._functorch.config")
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False
    made: Callable[..., Any] = torch.compile(function, dynamic=False)
    return made


def _linear(shape: Shape, device: Device) -> Kernel:
    rows, inputs, outputs = (int(shape.sizes[name]) for name in ("rows", "inputs", "outputs"))
    data = random_tensor(device, "bf16", rows, inputs, grad=True)
    weight = random_tensor(device, "bf16", outputs, inputs, grad=True)
    function = device.torch.nn.functional.linear
    return Kernel(lambda: function(data, weight), (data, weight))


def _attention(shape: Shape, device: Device) -> Kernel:
    batch, heads, seq = (int(shape.sizes[name]) for name in ("batch", "heads", "seq"))
    kv_heads = max(1, round(heads / shape.sizes["shared"]))
    tensors = tuple(
        random_tensor(device, "bf16", batch, number, seq, int(shape.sizes[size]), grad=True)
        for number, size in ((heads, "qk_dim"), (kv_heads, "qk_dim"), (kv_heads, "value_dim"))
    )
    product = device.torch.nn.functional.scaled_dot_product_attention
    grouped = heads != kv_heads
    return Kernel(lambda: product(*tensors, is_causal=True, enable_gqa=grouped), tensors)


def _grouped(shape: Shape, device: Device) -> Kernel:
    sizes = shape.sizes
    rows, experts = int(sizes["rows"]), int(sizes["experts"])
    data = random_tensor(device, "bf16", rows, int(sizes["inputs"]), grad=True)
    weights = random_tensor(device, "bf16", experts, int(sizes["inputs"]), int(sizes["outputs"]), grad=True)
    groups = even_groups(device, rows, experts)
    return Kernel(lambda: grouped_product(device, data, weights, groups), (data, weights))


PLAIN: Final[dict[str, Callable[[Shape, Device], Kernel]]] = {
    "linear": _linear,
    "attention": _attention,
    "grouped": _grouped,
}

Made = tuple[Callable[..., Any], tuple[Any, ...]]


def _rows(elements: float, width: int) -> int:
    return max(1, round(elements / width))


def _norm(elements: float, widths: Widths, device: Device) -> Made:
    data = random_tensor(device, "bf16", _rows(elements, widths.hidden), widths.hidden, grad=True)
    weight = random_tensor(device, "bf16", widths.hidden, grad=True)
    norm = norm_function(device, widths.norm)
    return lambda data, weight: norm(data, (widths.hidden,), weight), (data, weight)


def norm_function(device: Device, kind: str) -> Callable[..., Any]:
    """Return PyTorch's function for ``rmsnorm`` or ``layernorm``."""
    functional = device.torch.nn.functional
    chosen: Callable[..., Any] = functional.layer_norm if kind == "layernorm" else functional.rms_norm
    return chosen


def _residual(elements: float, widths: Widths, device: Device) -> Made:
    size = (_rows(elements, widths.hidden), widths.hidden)
    left, right = (random_tensor(device, "bf16", *size, grad=True) for _ in "ab")
    return lambda left, right: left + right, (left, right)


def _rotary(elements: float, widths: Widths, device: Device) -> Made:
    size = (_rows(elements, widths.head_dim), widths.head_dim)
    data = random_tensor(device, "bf16", *size, grad=True)
    cosine, sine = random_tensor(device, "bf16", *size), random_tensor(device, "bf16", *size)
    torch = device.torch
    return lambda data, cosine, sine: turned(torch, data, cosine, sine), (data, cosine, sine)


def _activation(elements: float, widths: Widths, device: Device) -> Made:
    functional = device.torch.nn.functional
    rows = _rows(elements, widths.hidden)
    if not widths.gated:
        data = random_tensor(device, "bf16", rows, widths.hidden, grad=True)
        return functional.gelu, (data,)
    gate, up = (random_tensor(device, "bf16", rows, widths.hidden, grad=True) for _ in "ab")
    return lambda gate, up: functional.silu(gate) * up, (gate, up)


def _permute(elements: float, widths: Widths, device: Device) -> Made:
    rows = _rows(elements, widths.hidden)
    data = random_tensor(device, "bf16", rows, widths.hidden, grad=True)
    order = device.torch.randperm(rows, device=device.where)
    return lambda data, order: data.index_select(0, order), (data, order)


def _embedding(elements: float, widths: Widths, device: Device) -> Made:
    torch = device.torch
    table = random_tensor(device, "bf16", widths.vocab, widths.hidden, grad=True)
    tokens = torch.randint(0, widths.vocab, (_rows(elements, widths.hidden),), device=device.where)
    return lambda tokens, table: torch.nn.functional.embedding(tokens, table), (tokens, table)


def _loss(elements: float, widths: Widths, device: Device) -> Made:
    torch = device.torch
    rows = _rows(elements, widths.vocab)
    logits = random_tensor(device, "bf16", rows, widths.vocab, grad=True)
    targets = torch.randint(0, widths.vocab, (rows,), device=device.where)
    return lambda logits, targets: torch.nn.functional.cross_entropy(logits.float(), targets), (
        logits,
        targets,
    )


ELEMENTWISE: Final[dict[str, Callable[[float, Widths, Device], Made]]] = {
    "norm": _norm,
    "residual": _residual,
    "rotary": _rotary,
    "activation": _activation,
    "permute": _permute,
    "embedding": _embedding,
    "loss": _loss,
}
"""Parts of an operator's name, each with PyTorch's kernels for it."""
