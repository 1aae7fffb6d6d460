"""Matrix products of training shapes in every data type that the device multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.profile.benches._family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

ELEMENT_BYTES: Final = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "nvfp4": 0.5625}
FP8_FROM: Final = 8.9
NVFP4_FROM: Final = 10.0
"""Compute capabilities from which the matrix units have the type."""
LARGEST_FLOPS: Final = {"cpu": 3e9, "cuda": 3e13}
"""Products longer than this say nothing new. [FLOP]"""
FP8_LARGEST: Final = 448.0


def dtypes(device: Device) -> list[str]:
    """Return the data types that the device multiplies, the most important first."""
    if device.is_cpu:
        return ["bf16"]
    wide = ["bf16"] if device.capability >= 8.0 else []
    small = ["fp8"] * (device.capability >= FP8_FROM) + ["nvfp4"] * (device.capability >= NVFP4_FROM)
    return [*wide, *small, "fp16"]


def point(bench: str, dtype: str, shape: dict[str, int]) -> Point:
    """Return the product of an m by k and a k by n matrix as a point."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    moved = ELEMENT_BYTES[dtype] * (m + n) * k + 2.0 * m * n
    return Point(bench, "product", dtype, shape, 2.0 * m * n * k, moved)


def _points(device: Device, shapes: Sequence[dict[str, int]]) -> list[Point]:
    found = [point("gemm", dtype, shape) for dtype in dtypes(device) for shape in shapes]
    return [one for one in found if one.flops <= LARGEST_FLOPS[device.kind]]


def coarse_points(device: Device) -> list[Point]:
    """Return the corners, a diagonal, and steps across a wave of tiles."""
    if device.is_cpu:
        return _points(
            device, grid(m=[64, 512], n=[64, 512], k=[64, 512]) + grid(m=[192, 768], n=[256], k=[256])
        )
    cube = grid(m=[512, 2048, 8192], n=[1024, 4096, 16384], k=[1024, 4096, 16384])
    steps = [{"m": m, "n": 4096, "k": 4096} for m in range(1024, 5120, 512) if m != 2048]
    return _points(device, cube + steps)


def finer_points(device: Device) -> list[Point]:
    """Return shapes spread over those that training has, weight gradients with their long k included."""
    if device.is_cpu:
        return _points(device, scattered(60, 64, m=(64, 1024), n=(64, 1024), k=(64, 1024)))
    return _points(device, scattered(500, 128, m=(512, 32768), n=(512, 32768), k=(512, 32768)))


def prepare(one: Point, device: Device) -> Call:
    """Return a product of random matrices, both with the inner dimension last, as linear layers have them."""
    m, n, k = one.shape["m"], one.shape["n"], one.shape["k"]
    if one.dtype == "nvfp4":
        return _four_bit(device, m, n, k)
    if one.dtype == "fp8":
        return _eight_bit(device, m, n, k)
    left, right = random_tensor(device, one.dtype, m, k), random_tensor(device, one.dtype, n, k)
    matmul, turned = device.torch.matmul, right.t()
    return lambda: matmul(left, turned)


def _eight_bit(device: Device, m: int, n: int, k: int) -> Call:
    """Return the cast of a 16-bit activation with its scale, and the product with a weight cast before."""
    torch = device.torch
    kind = torch.float8_e4m3fn
    activation = random_tensor(device, "bf16", m, k)
    weight = random_tensor(device, "bf16", n, k).to(kind).t()
    one: Any = torch.ones((), device=device.where)

    def product() -> object:
        largest = activation.abs().amax().float()
        quantised = (activation * (FP8_LARGEST / largest)).to(kind)
        return torch._scaled_mm(quantised, weight, largest / FP8_LARGEST, one, out_dtype=torch.bfloat16)

    return product


def _four_bit(device: Device, m: int, n: int, k: int) -> Call:
    """Return the product alone, of random 4-bit operands with a scale for every 16 elements."""
    torch = device.torch

    def operand(rows: int) -> tuple[Any, Any]:
        packed = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device.where)
        tiles = -(-rows // 128) * 128 * -(-(k // 16) // 4) * 4
        scales = torch.rand(tiles, device=device.where).add(0.5).to(torch.float8_e4m3fn)
        return packed.view(torch.float4_e2m1fn_x2), scales

    (left, left_scale), (right, right_scale) = operand(m), operand(n)
    turned = right.t()
    return lambda: torch._scaled_mm(left, turned, left_scale, right_scale, out_dtype=torch.bfloat16)


ENTRY = Bench(
    name="gemm",
    title="matrix products",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
)
