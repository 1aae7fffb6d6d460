"""Operators bound by memory: norm, activation, rotary embedding, residual, loss, and the Adam step.

The bytes are counted on the kernels that PyTorch really runs: a chain of kernels reads and writes between
its links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from planner.profile.benches.family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

BYTES: Final = {
    "copy": 4.0,
    "norm": 4.0,
    "residual": 6.0,
    "gated": 10.0,
    "rotary": 24.0,
    "loss": 8.0,
    "adam": 28.0,
}
"""Bytes that one element moves, forward. [byte]

copy: read and written. norm: one kernel. residual: two read, one written. gated: SiLU reads and writes, the
product reads two and writes one. rotary: half is negated (2), both halves are joined (4), two products and a
sum read two and write one each (18). loss: the logits of 4 bytes are read, and their logarithms written.
adam: parameter, gradient and two states of 4 bytes are read, all but the gradient written.
"""


VOCABULARIES: Final = (32000, 128256)
"""Widths of logits. [element]"""
FEWEST_ROWS: Final = 128
"""Rows of logits below which multiprocessors have nothing to do. [-]"""


def point(variant: str, shape: dict[str, int]) -> Point:
    """Return an operator on ``rows`` of ``width`` elements as a point."""
    nbytes = BYTES[variant] * shape["rows"] * shape["width"]
    return Point(
        "elementwise", variant, "fp32" if variant in ("loss", "adam") else "bf16", shape, 0.0, nbytes
    )


def coarse_points(device: Device) -> list[Point]:
    """Return every operator on small and large tensors."""
    rows, widths = ([64, 512], [256]) if device.is_cpu else ([512, 4096, 16384], [2048, 8192])
    return operators_of(grid(rows=rows, width=widths), device)


def finer_points(device: Device) -> list[Point]:
    """Return other sizes."""
    rows, width, count, step = (
        ((32, 2048), (128, 1024), 8, 32) if device.is_cpu else ((256, 65536), (1024, 16384), 25, 128)
    )
    return operators_of(scattered(count, step, rows=rows, width=width), device)


def operators_of(shapes: Sequence[dict[str, int]], device: Device) -> list[Point]:
    """Return every operator on tensors of about these sizes."""
    return [point(variant, _wide(variant, shape, device)) for shape in shapes for variant in BYTES]


def _wide(variant: str, shape: dict[str, int], device: Device) -> dict[str, int]:
    """Return the shape; of a loss one as wide as a vocabulary, with about as many elements.

    Its kernel reads a row again where that is too long for a multiprocessor to keep.
    """
    if variant != "loss" or device.is_cpu:
        return shape
    width = VOCABULARIES[shape["width"] >= 4096]
    return {"rows": FEWEST_ROWS + shape["rows"] * shape["width"] // width, "width": width}


def prepare(one: Point, device: Device) -> Call:
    """Return one operator on random data."""
    return OPERATORS[one.variant](device, one.shape["rows"], one.shape["width"])


def _copy(device: Device, rows: int, width: int) -> Call:
    source = random_tensor(device, "bf16", rows, width)
    target = device.torch.empty_like(source)
    return lambda: target.copy_(source)


def _norm(device: Device, rows: int, width: int) -> Call:
    data, weight = random_tensor(device, "bf16", rows, width), random_tensor(device, "bf16", width)
    function = device.torch.nn.functional.rms_norm
    return lambda: function(data, (width,), weight)


def _residual(device: Device, rows: int, width: int) -> Call:
    left, right = random_tensor(device, "bf16", rows, width), random_tensor(device, "bf16", rows, width)
    return lambda: left + right


def _gated(device: Device, rows: int, width: int) -> Call:
    gate, up = random_tensor(device, "bf16", rows, width), random_tensor(device, "bf16", rows, width)
    silu = device.torch.nn.functional.silu
    return lambda: silu(gate) * up


def _rotary(device: Device, rows: int, width: int) -> Call:
    data = random_tensor(device, "bf16", rows, width)
    cosine, sine = random_tensor(device, "bf16", rows, width), random_tensor(device, "bf16", rows, width)
    return lambda: turned(device.torch, data, cosine, sine)


def turned(torch: Any, data: Any, cosine: Any, sine: Any) -> Any:
    """Turn pairs of elements by their angles, as public modelling code writes it."""
    left, right = data.chunk(2, dim=-1)
    return data * cosine + torch.cat((-right, left), dim=-1) * sine


def _loss(device: Device, rows: int, width: int) -> Call:
    torch = device.torch
    logits = random_tensor(device, "fp32", rows, width)
    targets = torch.randint(0, width, (rows,), device=device.where)
    return lambda: torch.nn.functional.cross_entropy(logits, targets)


def _adam(device: Device, rows: int, width: int) -> Call:
    torch = device.torch
    weight = torch.nn.Parameter(random_tensor(device, "fp32", rows, width))
    weight.grad = random_tensor(device, "fp32", rows, width)
    step: Call = torch.optim.AdamW([weight], lr=1e-4, fused=True).step
    return step


OPERATORS: Final[dict[str, Callable[[Device, int, int], Call]]] = {
    "copy": _copy,
    "norm": _norm,
    "residual": _residual,
    "gated": _gated,
    "rotary": _rotary,
    "loss": _loss,
    "adam": _adam,
}

ENTRY = Bench(
    name="elementwise",
    title="memory-bound operators",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
    aliases=("memory",),
)
