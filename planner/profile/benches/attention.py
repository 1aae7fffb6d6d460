"""Attention through PyTorch's backends, forward and backward, and through flash-attn where installed."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Any, Final

from planner.formulas.attention import BACKWARD_FLOPS, attention_flops
from planner.profile.benches._family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

BACKENDS: Final = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
"""Backends by their names here and in torch; ``chosen`` is what torch takes by itself."""
PASSES: Final = ("forward", "backward")


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
    """Return causal layers of both head sizes, grouped and full ones, and a sample of every backend."""
    if device.is_cpu:
        return _both(
            "chosen", "causal", grid(batch=[1], heads=[2, 4], kv_heads=[2], seq=[64, 256], head_dim=[64])
        ) + _both("chosen", "causal", grid(batch=[1], heads=[4], kv_heads=[4], seq=[128, 384], head_dim=[64]))
    axes = grid(batch=[1, 4], heads=[16, 32], kv_heads=[8], seq=[1024, 4096, 8192], head_dim=[128])
    small = grid(batch=[1, 4], heads=[16], kv_heads=[16], seq=[1024, 2048, 4096, 8192], head_dim=[64])
    sample = grid(batch=[2], heads=[32], kv_heads=[8], seq=[2048, 8192], head_dim=[128])
    long = grid(batch=[1], heads=[32], kv_heads=[8], seq=[16384, 32768], head_dim=[128])
    others = [*BACKENDS, *(["package"] if importlib.util.find_spec("flash_attn") else [])]
    apart = [one for backend in others for one in _both(backend, "causal", sample)]
    return _both("chosen", "causal", axes + small + long) + _both("chosen", "full", sample) + apart


def finer_points(device: Device) -> list[Point]:
    """Return causal layers of many sizes."""
    if device.is_cpu:
        shapes = scattered(20, 32, seq=(32, 512))
        return _both(
            "chosen", "causal", [{"batch": 1, "heads": 4, "kv_heads": 4, **s, "head_dim": 64} for s in shapes]
        )
    found = []
    for size in (64, 128, 256):
        for shape in scattered(40, 128, seq=(512, 32768)):
            batch = max(1, 16384 // shape["seq"])
            heads = grid(batch=[batch], heads=[8, 32], kv_heads=[8])
            found += [{**head, **shape, "head_dim": size} for head in heads]
    return _both("chosen", "causal", found)


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
    query, key, value = (
        random_tensor(device, one.dtype, batch, one.shape[name], seq, size, grad=grad)
        for name in ("heads", "kv_heads", "kv_heads")
    )
    attend = _package if backend == "package" else _attend

    def forward() -> Any:
        with backend_context(device, backend):
            return attend(device, (query, key, value), kind == "causal")

    if not grad:
        return forward
    result = forward()
    pulled = random_tensor(device, one.dtype, *result.shape)
    return lambda: device.torch.autograd.grad(result, (query, key, value), pulled, retain_graph=True)


def _attend(device: Device, tensors: tuple[Any, Any, Any], causal: bool) -> Any:
    grouped = tensors[0].shape[1] != tensors[1].shape[1]
    product = device.torch.nn.functional.scaled_dot_product_attention
    return product(*tensors, is_causal=causal, enable_gqa=grouped)


def _package(_device: Device, tensors: tuple[Any, Any, Any], causal: bool) -> Any:
    flash = importlib.import_module("flash_attn")
    return flash.flash_attn_func(*(tensor.transpose(1, 2) for tensor in tensors), causal=causal)


ENTRY = Bench(
    name="attention",
    title="attention, forward and backward",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
)
