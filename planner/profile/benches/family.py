"""A bench: points of a grid, and how one of them is run on a device."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.dataclasses import dataclass
from planner.profile.device import Device
from planner.profile.timing import Call, Clock, clock_of

Shape = Mapping[str, int]


@dataclass(frozen=True)
class Point:
    """One thing to measure."""

    bench: str
    """Name of the bench."""
    variant: str
    """Which of its kernels: an operator, a backend, a direction."""
    dtype: str
    """Data type."""
    shape: Shape
    """Sizes by name. [element]"""
    flops: float
    nbytes: float
    """Work of one call: arithmetic, and bytes that it must move. [FLOP], [byte]"""

    @property
    def key(self) -> str:
        """The point as one word."""
        return json.dumps([self.bench, self.variant, self.dtype, dict(self.shape)], separators=(",", ":"))

    @property
    def family(self) -> tuple[str, str, str]:
        """Points that one curve describes."""
        return self.bench, self.variant, self.dtype

    @property
    def size(self) -> float:
        """What the time is roughly in proportion to: FLOP, or bytes where there is no arithmetic."""
        return self.flops or self.nbytes


@dataclass(frozen=True)
class Bench:
    """One family of kernels."""

    name: str
    """As ``--only`` takes them."""
    title: str
    """What it measures, in words."""
    coarse: Callable[[Device], Sequence[Point]]
    """Device to the points that must be measured, most telling first."""
    finer: Callable[[Device], Sequence[Point]]
    """Device to further points, of which those are measured where the curve is least certain."""
    prepare: Callable[[Point, Device], Call]
    """Point and device to one input set of random data, as a call that runs on it."""
    clock: Callable[[Point, Device], Clock] = lambda _point, device: clock_of(device)
    """Point and device to the clock that times it."""
    hold_seconds: float = 0.0
    """How long each point runs before it is timed. [s]"""
    aliases: tuple[str, ...] = ()
    """Other names."""


def nothing(_device: Device) -> Sequence[Point]:
    """Return no points."""
    return ()


def grid(**axes: Sequence[int]) -> list[dict[str, int]]:
    """Return the product of axes as shapes.

    Examples
    --------
    >>> grid(m=[1, 2], n=[3])
    [{'m': 1, 'n': 3}, {'m': 2, 'n': 3}]
    """
    return [dict(zip(axes, sizes, strict=True)) for sizes in itertools.product(*axes.values())]


def scattered(count: int, step: int, **ranges: tuple[int, int]) -> list[dict[str, int]]:
    """Return shapes spread evenly over the logarithm of each range, in multiples of ``step``.

    The same call gives the same shapes, so that an interrupted measurement finds its own points again.
    """
    dice = random.Random(f"{count} {step} {sorted(ranges.items())}")

    def draw(low: int, high: int) -> int:
        size: float = low * (high / low) ** dice.random()
        return max(step, round(size / step) * step)

    return [{name: draw(*bounds) for name, bounds in ranges.items()} for _ in range(count)]


def random_tensor(device: Device, dtype: str, *sizes: int, grad: bool = False) -> Any:
    """Return normal random data, as constant data draws less power and runs faster than real data does."""
    torch, kind = device.torch, device.dtype(dtype)
    if device.is_cpu:
        tensor = torch.randn(*sizes, dtype=torch.float32).to(kind)
    else:
        tensor = torch.randn(*sizes, device=device.where, dtype=kind)
    return tensor.requires_grad_() if grad else tensor
