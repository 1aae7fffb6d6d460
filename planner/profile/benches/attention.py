"""Attention through PyTorch's backends, forward and backward, and through packages that are installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Final

from planner.formulas.attention import BACKWARD_FLOPS, attention_flops
from planner.profile.benches.family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

BACKENDS: Final = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
"""Backends by their names here and in torch; ``chosen`` is what torch takes by itself."""
PACKAGES: Final = {
    "package": "flash_attn",
    "package3": "flash_attn_interface",
    "engine": "transformer_engine",
}
"""Other attentions by the module that has them: flash-attn 2 and 3, and Transformer Engine."""
PASSES: Final = ("forward", "backward")
SHAPES: Final = {64: 120, 128: 260, 256: 60}
"""Layers that may be measured for each head size. [-]"""
SHARED: Final = (1, 4, 2, 8)
"""Query heads for each key and value head, in turn. [-]"""
MOST_TOKENS: Final = 65536
LARGEST_FLOPS: Final = 1e13
"""Layers longer than this say nothing new. [FLOP]"""


def point(variant: str, shape: dict[str, int]) -> Point:
    """Return one layer's attention as a point; the variant is ``backend-kind-pass``."""
    batch, heads, seq, size = (float(shape[name]) for name in ("batch", "heads", "seq", "head_dim"))
    _, kind, direction = variant.split("-")
    visible = seq if kind == "full" else seq / 2
    forward = float(attention_flops(batch, heads, seq, visible, size))
    flops = forward * (BACKWARD_FLOPS if direction == "backward" else 1.0)
    kv_heads = float(shape["kv_heads"])
    return Point(
        "attention", variant, "bf16", shape, flops, 2.0 * batch * seq * size * 2 * (heads + kv_heads)
    )


def _both(backend: str, kind: str, shapes: list[dict[str, int]]) -> list[Point]:
    return [point(f"{backend}-{kind}-{direction}", shape) for shape in shapes for direction in PASSES]


def coarse_points(device: Device) -> list[Point]:
    """Return causal layers of both head sizes, grouped and full ones, and a sample of every backend.

    The efficient backend takes as many key and value heads as query heads alone.
    """
    if device.is_cpu:
        return _both(
            "chosen", "causal", grid(batch=[1], heads=[2, 4], kv_heads=[2], seq=[64, 256], head_dim=[64])
        ) + _both("chosen", "causal", grid(batch=[1], heads=[4], kv_heads=[4], seq=[128, 384], head_dim=[64]))
    axes = grid(batch=[1, 4], heads=[16, 32], kv_heads=[8], seq=[1024, 4096, 8192], head_dim=[128])
    small = grid(batch=[1, 4], heads=[16], kv_heads=[16], seq=[1024, 2048, 4096, 8192], head_dim=[64])
    sample = grid(batch=[2], heads=[32], kv_heads=[8], seq=[2048, 8192], head_dim=[128])
    long = grid(batch=[1], heads=[32], kv_heads=[8], seq=[16384, 32768], head_dim=[128])
    installed = [name for name, module in PACKAGES.items() if importlib.util.find_spec(module)]
    plain = [{**shape, "kv_heads": shape["heads"]} for shape in sample]
    apart = [
        one
        for backend in (*BACKENDS, *installed)
        for one in _both(backend, "causal", plain if backend == "efficient" else sample)
    ]
    return _both("chosen", "causal", axes + small + long) + _both("chosen", "full", sample) + apart


def finer_points(device: Device) -> list[Point]:
    """Return causal layers of many sizes."""
    if device.is_cpu:
        shapes = scattered(20, 32, seq=(32, 512))
        return _both(
            "chosen", "causal", [{"batch": 1, "heads": 4, "kv_heads": 4, **s, "head_dim": 64} for s in shapes]
        )
    found = []
    for size, count in SHAPES.items():
        drawn = scattered(count, 128, seq=(512, 32768)), scattered(count, 4, rows=(4, 512))
        for number, (seq, rows) in enumerate(zip(*drawn, strict=True)):
            shared = SHARED[number % len(SHARED)]
            most = int(max(1.0, LARGEST_FLOPS / (2.0 * seq["seq"] ** 2 * size)))
            layer = heads_of(min(rows["rows"], most), shared, seq["seq"])
            found.append({**layer, **seq, "head_dim": size})
    return _both("chosen", "causal", found)


def heads_of(rows: int, shared: int, seq: int) -> dict[str, int]:
    """Return a batch whose sequences times heads are about ``rows``, with at most 65,536 tokens."""
    most = max(1, MOST_TOKENS // seq)
    batch = next(size for size in (16, 8, 4, 2, 1) if size <= most and (rows >= 4 * size or size == 1))
    kv_heads = max(1, round(rows / batch / shared))
    return {"batch": batch, "heads": kv_heads * shared, "kv_heads": kv_heads}


def backend_context(device: Device, backend: str) -> Any:
    """Return a context in which torch takes only one backend."""
    if backend not in BACKENDS:
        return contextlib.nullcontext()
    attention = importlib.import_module("torch.nn.attention")
    return attention.sdpa_kernel(getattr(attention.SDPBackend, BACKENDS[backend]))


def prepare(one: Point, device: Device) -> Call:
    """Return the forward pass, or the backward pass alone through a graph that is kept."""
    backend, kind, direction = one.variant.split("-")
    batch, seq, size = one.shape["batch"], one.shape["seq"], one.shape["head_dim"]
    grad = direction == "backward"
    attend = (_package(backend, one, kind == "causal") if backend in PACKAGES else
              _attend(device, one, kind == "causal"))  # fmt: skip
    query, key, value = (
        random_tensor(device, one.dtype, *_sizes(backend, batch, one.shape[name], seq, size), grad=grad)
        for name in ("heads", "kv_heads", "kv_heads")
    )

    def forward() -> Any:
        with backend_context(device, backend):
            return attend(query, key, value)

    if not grad:
        return forward
    result = forward()
    pulled = random_tensor(device, one.dtype, *result.shape)
    return lambda: device.torch.autograd.grad(result, (query, key, value), pulled, retain_graph=True)


def _sizes(backend: str, batch: int, heads: int, seq: int, size: int) -> tuple[int, ...]:
    """Order of the axes: packages have the heads beside the head size."""
    return (batch, seq, heads, size) if backend in PACKAGES else (batch, heads, seq, size)


def _attend(device: Device, one: Point, causal: bool) -> Callable[..., Any]:
    grouped = one.shape["heads"] != one.shape["kv_heads"]
    product = device.torch.nn.functional.scaled_dot_product_attention
    return lambda *tensors: product(*tensors, is_causal=causal, enable_gqa=grouped)


def _package(backend: str, one: Point, causal: bool) -> Callable[..., Any]:
    """Return a package's attention on tensors of batch, sequence, heads and head size."""
    if backend == "engine":
        engine = importlib.import_module("transformer_engine.pytorch")
        layer: Callable[..., Any] = engine.DotProductAttention(
            one.shape["heads"], one.shape["head_dim"], num_gqa_groups=one.shape["kv_heads"],
            attention_dropout=0.0, qkv_format="bshd", attn_mask_type="causal" if causal else "no_mask",
        )  # fmt: skip
        return layer
    function = importlib.import_module(PACKAGES[backend]).flash_attn_func

    def attend(*tensors: Any) -> Any:
        result = function(*tensors, causal=causal)
        return result[0] if isinstance(result, tuple) else result

    return attend


ENTRY = Bench(
    name="attention",
    title="attention, forward and backward",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
)
