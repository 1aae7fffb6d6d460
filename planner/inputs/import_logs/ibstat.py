"""The text of ibstat: network adapters with their ports."""

from __future__ import annotations

import re
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem

_ADAPTER: Final = re.compile(r"^\s*CA '([^']+)'", re.MULTILINE)
_FIELD: Final = re.compile(r"^\s*([A-Za-z ]+): (.+)$", re.MULTILINE)
_PORT: Final = re.compile(r"^\s*Port (\d+):", re.MULTILINE)
_BITS: Final = 1e9 / 8


@dataclass(frozen=True)
class Adapter:
    """One port of an adapter."""

    name: str
    """Adapter and port, such as ``mlx5_0`` or ``mlx5_0/2``."""
    active: bool
    """Whether the port is up."""
    rate: float
    """Line rate, one direction. [byte/s]"""
    layer: str
    """``InfiniBand`` or ``Ethernet``."""


def read_ibstat(text: str, where: str) -> tuple[Adapter, ...]:
    """Return every port of every adapter.

    Raises `InputError` if there is none, or a port has no rate.
    """
    parts = _ADAPTER.split(text)[1:]
    found = [
        port for name, body in zip(parts[::2], parts[1::2], strict=True) for port in _ports(name, body, where)
    ]
    if not found:
        raise InputError(Problem(where, "no adapter", "the text of ibstat, with CA 'NAME' and its ports"))
    return tuple(found)


def _ports(name: str, body: str, where: str) -> list[Adapter]:
    parts = _PORT.split(body)[1:]
    several = len(parts) > 2
    found = []
    for number, fields in zip(parts[::2], parts[1::2], strict=True):
        values = {key.strip(): value.strip() for key, value in _FIELD.findall(fields)}
        rate = re.match(r"[0-9]+(\.[0-9]+)?", values.get("Rate", ""))
        if rate is None:
            raise InputError(
                Problem(f"{where}: {name} port {number}", "no rate", "a line such as Rate: 400, in Gbit/s")
            )
        found.append(
            Adapter(
                name=f"{name}/{number}" if several else name,
                active=values.get("State") == "Active",
                rate=float(rate[0]) * _BITS,
                layer=values.get("Link layer", "InfiniBand"),
            )
        )
    return found
