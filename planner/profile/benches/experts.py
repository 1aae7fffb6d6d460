"""The routed experts of one layer: gather, grouped products, gated activation, weighted sum."""

from __future__ import annotations

from typing import Any, Final

from planner.profile.benches.family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

GROUPED_FROM: Final = 9.0
"""Compute capability from which PyTorch multiplies all experts in one kernel."""


def point(shape: dict[str, int]) -> Point:
    """Return a layer of experts under a balanced router as a point."""
    rows = float(shape["tokens"] * shape["topk"])
    hidden, inter, experts = float(shape["hidden"]), float(shape["inter"]), float(shape["experts"])
    moved = 6.0 * experts * hidden * inter + 6.0 * rows * (hidden + inter)
    return Point("experts", "layer", "bf16", shape, 6.0 * rows * hidden * inter, moved)


def coarse_points(device: Device) -> list[Point]:
    """Return few and many experts with few and many rows each."""
    if device.is_cpu:
        axes = grid(tokens=[64, 256], hidden=[128], inter=[128, 256], topk=[2], experts=[4, 8])
        return [point(shape) for shape in axes]
    axes = grid(tokens=[1024, 8192], hidden=[2048, 4096], inter=[1024, 2048], topk=[2, 8], experts=[8, 32])
    return [point(shape) for shape in axes]


def finer_points(device: Device) -> list[Point]:
    """Return layers of other sizes."""
    if device.is_cpu:
        return [
            point({**shape, "topk": 2, "experts": 8})
            for shape in scattered(10, 32, tokens=(32, 512), hidden=(64, 256), inter=(64, 256))
        ]
    shapes = scattered(60, 128, tokens=(512, 32768), hidden=(1024, 8192), inter=(512, 8192))
    return [
        point({**shape, "topk": topk, "experts": experts})
        for shape, (topk, experts) in zip(shapes, [(2, 8), (8, 64), (4, 16), (8, 128)] * 15, strict=True)
    ]


def prepare(one: Point, device: Device) -> Call:
    """Return the layer on random rows, each expert with as many as the others."""
    torch = device.torch
    tokens, topk, experts = one.shape["tokens"], one.shape["topk"], one.shape["experts"]
    hidden, inter = one.shape["hidden"], one.shape["inter"]
    data = random_tensor(device, one.dtype, tokens, hidden)
    wide = random_tensor(device, one.dtype, experts, hidden, 2 * inter)
    narrow = random_tensor(device, one.dtype, experts, inter, hidden)
    order = torch.randperm(tokens * topk, device=device.where)
    weights = torch.rand(tokens * topk, 1, device=device.where, dtype=device.dtype(one.dtype))
    groups = even_groups(device, tokens * topk, experts)

    def layer() -> Any:
        routed = data[order // topk]
        gate, up = grouped_product(device, routed, wide, groups).chunk(2, dim=-1)
        inner = torch.nn.functional.silu(gate) * up
        out = grouped_product(device, inner, narrow, groups) * weights
        return torch.zeros_like(data).index_add_(0, order // topk, out)

    return layer


Groups = tuple[Any, list[int]]
"""Where each expert's rows end: on the device, and as numbers without the last one."""


def even_groups(device: Device, rows: int, experts: int) -> Groups:
    """Return the groups of rows dealt evenly to experts."""
    ends = [min(number * -(-rows // experts), rows) for number in range(1, experts + 1)]
    return device.torch.tensor(ends, dtype=device.torch.int32, device=device.where), ends[:-1]


def grouped_product(device: Device, rows: Any, weights: Any, groups: Groups) -> Any:
    """Multiply each expert's rows by its weights: in one kernel where the device has one."""
    torch = device.torch
    grouped = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    if device.capability >= GROUPED_FROM and grouped is not None:
        return grouped(rows, weights, offs=groups[0])
    parts = torch.tensor_split(rows, groups[1])
    return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])


ENTRY = Bench(
    name="experts",
    title="routed experts",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
    aliases=("moe",),
)
