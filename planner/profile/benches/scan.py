"""Mixers without attention, forward and backward: chunked scans, the scan of Mamba-1, short convolutions.

Written out in PyTorch, and by the packages that are installed, whose kernels training takes:
flash-linear-attention for the delta rules and lightning attention, mamba-ssm for both Mambas, causal-conv1d.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from planner.formulas.recurrence import delta_rule_flops, linear_attention_flops
from planner.profile.benches.family import Bench, Point, grid, random_tensor, scattered
from planner.profile.device import Device
from planner.profile.timing import Call

Tensors = tuple[Any, ...]

STATE: Final = 16
"""Numbers of a channel's state of Mamba-1. [-]"""
KERNEL: Final = 4
"""Tokens that a short convolution sees. [-]"""
PASSES: Final = ("forward", "backward")


class ScanKind(NamedTuple):
    """One kind: its chunk, FLOPs of a token and head by its width, elements of both, and what runs it.

    ``packages`` are modules that have it, each with the function that calls its own.
    """

    chunk: int
    flops: Callable[[int], float]
    elements: Callable[[int], float]
    inputs: Callable[[Device, Point, bool], Tensors]
    written_out: Callable[..., Any]
    packages: Mapping[str, Callable[..., Any]]


def _heads(device: Device, one: Point, grad: bool, count: int, vectors: int) -> Tensors:
    """Return tensors of batch, tokens, heads and width, then ``vectors`` of one number a head, below zero."""
    torch, sizes = device.torch, [one.shape[name] for name in ("batch", "seq", "heads")]
    wide = [random_tensor(device, one.dtype, *sizes, one.shape["width"]) for _ in range(count)]
    size = one.shape["width"] ** -0.5
    made = [*(tensor * size for tensor in wide)]
    made += [-torch.rand(*sizes, device=device.where, dtype=torch.float32) for _ in range(vectors)]
    return tuple(tensor.requires_grad_(grad) for tensor in made)


def _linear_inputs(device: Device, one: Point, grad: bool) -> Tensors:
    return _heads(device, one, grad, 3, 1)


def _delta_inputs(device: Device, one: Point, grad: bool) -> Tensors:
    return _heads(device, one, grad, 3, 2)


def _channels(device: Device, one: Point, grad: bool, vectors: tuple[int, ...]) -> Tensors:
    """Return channels as rows of tokens, and what each takes besides."""
    width, batch = one.shape["heads"] * one.shape["width"], one.shape["batch"]
    rows = [random_tensor(device, one.dtype, batch, width, one.shape["seq"]) for _ in range(2)]
    more = [random_tensor(device, one.dtype, batch, size, one.shape["seq"]) for size in vectors]
    return tuple(tensor.requires_grad_(grad) for tensor in (*rows, *more))


def _selective_inputs(device: Device, one: Point, grad: bool) -> Tensors:
    return _channels(device, one, grad, (STATE, STATE))


def _conv_inputs(device: Device, one: Point, grad: bool) -> Tensors:
    width = one.shape["heads"] * one.shape["width"]
    kernel = random_tensor(device, one.dtype, width, 1, KERNEL)
    return (_channels(device, one, grad, ())[0], kernel.requires_grad_(grad))


def _chunks(tensor: Any, chunk: int) -> Any:
    """Return batch, heads, chunks, tokens of a chunk and what is left of a tensor."""
    batch, seq, heads, *rest = tensor.shape
    return tensor.view(batch, seq // chunk, chunk, heads, *rest).movedim(3, 1)


def linear_by_chunks(torch: Any, q: Any, k: Any, v: Any, decay: Any, chunk: int) -> Any:
    """Return linear attention whose state decays by ``exp(decay)`` with each token."""
    q, k, v = (_chunks(one, chunk).float() for one in (q, k, v))
    sums = _chunks(decay, chunk).cumsum(-1)
    near = torch.exp((sums[..., :, None] - sums[..., None, :]).tril()).tril()
    inside = ((q @ k.transpose(-1, -2)) * near) @ v
    kept = torch.exp(sums[..., -1:] - sums)[..., None] * k
    state, out = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for place in range(k.shape[2]):
        out.append(inside[:, :, place] + (q * torch.exp(sums)[..., None])[:, :, place] @ state)
        state = state * torch.exp(sums[:, :, place, -1])[..., None, None]
        state = state + kept[:, :, place].transpose(-1, -2) @ v[:, :, place]
    return torch.stack(out, 2).movedim(1, 3).flatten(1, 2)


def delta_by_chunks(torch: Any, q: Any, k: Any, v: Any, decay: Any, write: Any, chunk: int) -> Any:
    """Return the gated delta rule: what a state held under a key is taken out before it is written."""
    q, k, v = (_chunks(one, chunk).float() for one in (q, k, v))
    sums, beta = _chunks(decay, chunk).cumsum(-1), -_chunks(write, chunk)[..., None]
    near = torch.exp((sums[..., :, None] - sums[..., None, :]).tril()).tril()
    met = (beta * (k @ k.transpose(-1, -2)) * near).tril(-1)
    eye = torch.eye(chunk, device=k.device)
    both = torch.cat((beta * v, beta * torch.exp(sums)[..., None] * k), -1)
    solved = torch.linalg.solve_triangular(eye + met, both, upper=False, unitriangular=True)
    new, read = solved.split((v.shape[-1], k.shape[-1]), -1)
    kept = torch.exp(sums[..., -1:] - sums)[..., None] * k
    state, out = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for place in range(k.shape[2]):
        fresh = new[:, :, place] - read[:, :, place] @ state
        asked = q[:, :, place]
        inside = (asked @ k[:, :, place].transpose(-1, -2)) * near[:, :, place]
        out.append(inside @ fresh + (asked * torch.exp(sums[:, :, place])[..., None]) @ state)
        state = state * torch.exp(sums[:, :, place, -1])[..., None, None]
        state = state + kept[:, :, place].transpose(-1, -2) @ fresh
    return torch.stack(out, 2).movedim(1, 3).flatten(1, 2)


def selective_by_token(torch: Any, rows: Any, steps: Any, into: Any, read: Any, chunk: int) -> Any:
    """Return the scan of Mamba-1, one token after the other; ``chunk`` says nothing to it."""
    rows, into, read = rows.float(), into.float(), read.float()
    steps = torch.nn.functional.softplus(steps.float())
    rates = -torch.arange(1.0, STATE + 1, device=rows.device)
    state, out = rows.new_zeros(*rows.shape[:2], STATE), []
    for place in range(rows.shape[-1]):
        step = steps[..., place, None]
        state = torch.exp(step * rates) * state + step * rows[..., place, None] * into[:, None, :, place]
        out.append((state * read[:, None, :, place]).sum(-1))
    return torch.stack(out, -1)


def convolved(torch: Any, rows: Any, kernel: Any, chunk: int) -> Any:
    """Return a causal convolution of each channel; ``chunk`` says nothing to it."""
    padded = torch.nn.functional.pad(rows, (KERNEL - 1, 0))
    return torch.nn.functional.conv1d(padded, kernel, groups=rows.shape[1])


def _fla_delta(_torch: Any, q: Any, k: Any, v: Any, decay: Any, write: Any, chunk: int) -> Any:
    own = importlib.import_module("fla.ops.gated_delta_rule")
    return own.chunk_gated_delta_rule(q, k, v, g=decay, beta=-write)[0]


def _mamba_2(torch: Any, q: Any, k: Any, v: Any, decay: Any, chunk: int) -> Any:
    own = importlib.import_module("mamba_ssm.ops.triton.ssd_combined")
    rates = -torch.ones(v.shape[2], device=v.device)
    return own.mamba_chunk_scan_combined(v, -decay, rates, k, q, chunk)


def _mamba_1(torch: Any, rows: Any, steps: Any, into: Any, read: Any, chunk: int) -> Any:
    own = importlib.import_module("mamba_ssm.ops.selective_scan_interface")
    rates = -torch.arange(1.0, STATE + 1, device=rows.device).repeat(rows.shape[1], 1)
    return own.selective_scan_fn(rows, steps, rates, into, read, delta_softplus=True)


def _causal_conv(_torch: Any, rows: Any, kernel: Any, chunk: int) -> Any:
    return importlib.import_module("causal_conv1d").causal_conv1d_fn(rows, kernel[:, 0])


SCANS: Final[Mapping[str, ScanKind]] = {
    "linear": ScanKind(
        256, lambda width: float(linear_attention_flops(width, width, 256, 1)), lambda width: 4.0 * width,
        _linear_inputs, linear_by_chunks, {"mamba_ssm": _mamba_2},
    ),
    "delta": ScanKind(
        64, lambda width: float(delta_rule_flops(width, width, 64)), lambda width: 4.0 * width,
        _delta_inputs, delta_by_chunks, {"fla": _fla_delta},
    ),
    "selective": ScanKind(
        1, lambda width: 9.0 * STATE * width, lambda width: 3.0 * width,
        _selective_inputs, selective_by_token, {"mamba_ssm": _mamba_1},
    ),
    "conv": ScanKind(
        1, lambda width: 2.0 * KERNEL * width, lambda width: 2.0 * width,
        _conv_inputs, convolved, {"causal_conv1d": _causal_conv},
    ),
}  # fmt: skip
"""Kinds: Mamba-2 and lightning attention, the delta rules, Mamba-1, short convolutions."""


def point(variant: str, shape: dict[str, int]) -> Point:
    """Return one layer's scan as a point; the variant is ``kind-package-pass``."""
    kind, _, direction = variant.split("-")
    rows = float(shape["batch"] * shape["heads"] * shape["seq"])
    times = 1.0 if direction == "forward" else 2.0
    scan, width = SCANS[kind], shape["width"]
    return Point(
        "scan",
        variant,
        "bf16",
        shape,
        times * rows * scan.flops(width),
        times * 2.0 * rows * scan.elements(width),
    )


def _each(shapes: list[dict[str, int]]) -> list[Point]:
    found = []
    for kind, scan in SCANS.items():
        there = [name for name in scan.packages if importlib.util.find_spec(name)]
        found += [
            point(f"{kind}-{name}-{direction}", shape)
            for name in (*there, "written")
            for shape in shapes
            for direction in PASSES
            if name != "written" or kind != "selective" or shape["seq"] <= MOST_STEPS
        ]
    return found


MOST_STEPS: Final = 512
"""Tokens of the longest sequence that is run one after the other. [-]"""


def coarse_points(device: Device) -> list[Point]:
    """Return few layers of each kind."""
    if device.is_cpu:
        return _each(grid(batch=[1], heads=[2], seq=[256, 512], width=[32]))
    return _each(grid(batch=[1], heads=[32], seq=[512, 8192], width=[128]))


def finer_points(device: Device) -> list[Point]:
    """Return layers of many lengths."""
    if device.is_cpu:
        return _each(
            [{"batch": 1, "heads": 2, **shape, "width": 64} for shape in scattered(3, 256, seq=(256, 1024))]
        )
    shapes = scattered(12, 256, seq=(1024, 65536))
    return _each([{"batch": 1, "heads": 32, **shape, "width": 128} for shape in shapes])


def prepare(one: Point, device: Device) -> Call:
    """Return the forward pass, or the backward pass alone through a graph that is kept."""
    kind, package, direction = one.variant.split("-")
    scan, torch = SCANS[kind], device.torch
    run = scan.packages.get(package, scan.written_out)
    inputs = scan.inputs(device, one, direction == "backward")

    def forward() -> Any:
        return run(torch, *inputs, chunk=scan.chunk)

    if direction == "forward":
        return forward
    result = forward()
    pulled = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, inputs, pulled, retain_graph=True)


ENTRY = Bench(
    name="scan",
    title="scans and short convolutions, forward and backward",
    coarse=coarse_points,
    finer=finer_points,
    prepare=prepare,
)
