"""Matrix products of training shapes in every data type that the device multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.profile.benches.family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

ELEMENT_BYTES: Final = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.03125, "nvfp4": 0.5625}
FP8_FROM: Final = 8.9
BLOCKED_FROM: Final = 10.0
"""Compute capabilities from which the matrix units have the type."""
LARGEST_FLOPS: Final = {"cpu": 3e9, "cuda": 3e13}
"""Products longer than this say nothing new. [FLOP]"""
FP8_LARGEST: Final = 448.0


def dtypes(device: Device) -> list[str]:
    """Return the data types that the device multiplies, the most important first."""
    if device.is_cpu:
        return ["bf16"]
    wide = ["bf16"] if device.capability >= 8.0 else []
    small = ["fp8"] * (device.capability >= FP8_FROM)
    small += ["mxfp8", "nvfp4"] * (device.capability >= BLOCKED_FROM)
    return [*wide, *small, "fp16"]


def point(bench: str, dtype: str, shape: dict[str, int], variant: str = "product") -> Point:
    """Return the product of an m by k and a k by n matrix as a point."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    moved = ELEMENT_BYTES[dtype] * (m + n) * k + 2.0 * m * n
    return Point(bench, variant, dtype, shape, 2.0 * m * n * k, moved)


def _points(device: Device, shapes: Sequence[dict[str, int]], kinds: Sequence[str]) -> list[Point]:
    found = [point("gemm", dtype, shape) for dtype in kinds for shape in shapes]
    return [one for one in found if one.flops <= LARGEST_FLOPS[device.kind]]


def coarse_points(device: Device) -> list[Point]:
    """Return the corners, a diagonal, and steps across a wave of tiles."""
    if device.is_cpu:
        shapes = grid(m=[64, 512], n=[64, 512], k=[64, 512]) + grid(m=[192, 768], n=[256], k=[256])
        return _points(device, shapes, dtypes(device))
    cube = grid(m=[512, 2048, 8192], n=[1024, 4096, 16384], k=[1024, 4096, 16384])
    steps = [{"m": m, "n": 4096, "k": 4096} for m in range(1024, 5120, 512) if m != 2048]
    rows = [point("gemm", "fp8", {"m": m, "n": 4096, "k": 4096}, "rowwise") for m in (2048, 8192)]
    return _points(device, cube + steps, dtypes(device)) + rows * (device.capability >= FP8_FROM)


def finer_points(device: Device) -> list[Point]:
    """Return shapes spread over those that training has, weight gradients with their long k included.

    Where there is bf16 the coarse points say enough of fp16, which runs on the same units.
    """
    if device.is_cpu:
        return _points(device, scattered(60, 64, m=(64, 1024), n=(64, 1024), k=(64, 1024)), dtypes(device))
    kinds = [dtype for dtype in dtypes(device) if dtype != "fp16"] if device.capability >= 8.0 else ["fp16"]
    return _points(device, scattered(500, 128, m=(512, 32768), n=(512, 32768), k=(512, 32768)), kinds)


def prepare(one: Point, device: Device) -> Call:
    """Return a product of random matrices, both with the inner dimension last, as linear layers have them."""
    m, n, k = one.shape["m"], one.shape["n"], one.shape["k"]
    if one.dtype in BLOCKS:
        return _blocked(device, m, n, k, one.dtype)
    if one.dtype == "fp8":
        return _eight_bit(device, m, n, k, one.variant == "rowwise")
    left, right = random_tensor(device, one.dtype, m, k), random_tensor(device, one.dtype, n, k)
    matmul, turned = device.torch.matmul, right.t()
    return lambda: matmul(left, turned)


def _eight_bit(device: Device, m: int, n: int, k: int, rowwise: bool) -> Call:
    """Return the cast of a 16-bit activation with its scale, and the product with a weight cast before.

    Sums are kept in the matrix units, as recipes have it in the forward pass; scales belong to the tensor or
    to each row.
    """
    torch = device.torch
    kind = torch.float8_e4m3fn
    activation = random_tensor(device, "bf16", m, k)
    weight = random_tensor(device, "bf16", n, k).to(kind).t()
    one: Any = torch.ones((1, n) if rowwise else (), device=device.where)
    axes: dict[str, Any] = {"dim": 1, "keepdim": True} if rowwise else {}

    def product() -> object:
        largest = activation.abs().amax(**axes).float()
        quantised = (activation * (FP8_LARGEST / largest)).to(kind)
        scale = largest / FP8_LARGEST
        return torch._scaled_mm(quantised, weight, scale, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return product


BLOCKS: Final = {"mxfp8": (32, "float8_e8m0fnu"), "nvfp4": (16, "float8_e4m3fn")}
"""Elements that share a scale, and torch's type of the scale."""


def _blocked(device: Device, m: int, n: int, k: int, dtype: str) -> Call:
    """Return the product alone, of random operands with a scale for every few elements, in tiles of 128 by 4.

    References
    ----------
    .. [1] NVIDIA, "cuBLAS Library," DU-06702-001, section "Block Scaling for FP8 and FP4 Data Types".
    """
    torch = device.torch
    block, scale_type = BLOCKS[dtype]

    def operand(rows: int) -> tuple[Any, Any]:
        tiles = -(-rows // 128) * 128 * -(-(k // block) // 4) * 4
        scales = torch.rand(tiles, device=device.where).add(0.5).to(getattr(torch, scale_type))
        if dtype == "mxfp8":
            return random_tensor(device, "bf16", rows, k).to(torch.float8_e4m3fn), scales
        packed = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device.where)
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
