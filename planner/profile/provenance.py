"""When, where and with what something was measured."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import asdict, dataclass
from planner.profile.device import Device
from planner.profile.nvml import Driver

MUST_AGREE: Final = ("device", "driver", "cuda", "nccl", "torch")
"""What a later measurement must share with an earlier one to be of the same machine."""


@dataclass(frozen=True)
class Provenance:
    """Date, device and versions; an empty text is unknown or does not exist there."""

    date: str
    device: str
    driver: str
    cuda: str
    nccl: str
    torch: str
    python: str
    host: str

    def as_dict(self) -> dict[str, str]:
        """Return the fields by name."""
        return asdict(self)


def provenance_of(device: Device, driver: Driver) -> Provenance:
    """Return what is known of this machine now."""
    torch = device.torch
    return Provenance(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        device=device.name,
        driver=driver.version(),
        cuda="" if device.is_cpu else str(torch.version.cuda or torch.version.hip or ""),
        nccl=_nccl(torch) if not device.is_cpu else "",
        torch=str(torch.__version__),
        python=platform.python_version(),
        host=f"{platform.system()} {platform.release()}",
    )


def _nccl(torch: Any) -> str:
    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError):
        return ""


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words what has changed of what a measurement depends on.

    Examples
    --------
    >>> differences({"torch": "2.6.0", "driver": "550.54"}, {"torch": "2.13.0", "driver": "550.54"})
    ['torch was 2.6.0 and is 2.13.0']
    """
    return [
        f"{name} was {then[name]} and is {now[name] or 'unknown'}"
        for name in MUST_AGREE
        if then.get(name) and name in now and then[name] != now[name]
    ]
