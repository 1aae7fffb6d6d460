"""What the driver says of a GPU: clocks, heat, who uses it, whether it is cut into slices."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final

from planner.dataclasses import dataclass

SLOWDOWNS: Final = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of the clock event reasons under which a measurement is not the machine's own speed.

References
----------
.. [1] NVIDIA, "NVML API Reference Guide," nvmlClocksEventReasons.
"""


@dataclass(frozen=True)
class PowerReading:
    """One look at a GPU; None is what the driver does not say."""

    clock_mhz: float | None = None
    """Clock of the multiprocessors. [MHz]"""
    temperature_c: float | None = None
    """Of the chip. [degree Celsius]"""
    power_w: float | None = None
    """Drawn. [W]"""
    slowdowns: tuple[str, ...] = ()
    """Reasons why it runs slower than it could, heat and brakes alone."""


@dataclass(frozen=True)
class User:
    """A process that holds memory of a GPU. [byte]"""

    pid: int
    nbytes: float


class Driver:
    """The driver's library, or silence where there is none.

    ``library``: ``pynvml``, started; ``handle``: the GPU; without it the library tells its version alone;
    ``is_slice``: whether the GPU is known by the UUID of a MIG slice.
    """

    def __init__(self, library: Any = None, handle: Any = None, is_slice: bool = False) -> None:
        self.library, self.handle, self.is_slice = library, handle, is_slice

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what a function of the library says of the GPU, None where it does not say."""
        if self.library is None or self.handle is None:
            return None
        try:
            return getattr(self.library, name)(self.handle, *arguments)
        except (self.library.NVMLError, AttributeError):
            return None

    def reading(self) -> PowerReading:
        """Look at clocks, heat and power."""
        kind = getattr(self.library, "NVML_CLOCK_SM", 1)
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        power = self.ask("nvmlDeviceGetPowerUsage")
        return PowerReading(
            clock_mhz=self.ask("nvmlDeviceGetClockInfo", kind),
            temperature_c=self.ask("nvmlDeviceGetTemperature", 0),
            power_w=None if power is None else power / 1000,
            slowdowns=tuple(word for bit, word in SLOWDOWNS.items() if bits & bit),
        )

    def users(self) -> Sequence[User]:
        """Return the processes on the GPU, this one left out."""
        found = self.ask("nvmlDeviceGetComputeRunningProcesses") or ()
        own = os.getpid()
        return [User(one.pid, float(one.usedGpuMemory or 0)) for one in found if one.pid != own]

    def memory(self) -> float | None:
        """Return the memory that the driver reports, None where it does not. [byte]"""
        facts = self.ask("nvmlDeviceGetMemoryInfo")
        return None if facts is None else float(facts.total)

    def is_sliced(self) -> bool:
        """Whether the GPU is cut into MIG slices."""
        mode = self.ask("nvmlDeviceGetMigMode")
        return self.is_slice or bool(mode and mode[0])

    def version(self) -> str:
        """Return the version of the driver, empty where unknown."""
        if self.library is None:
            return ""
        try:
            text = self.library.nvmlSystemGetDriverVersion()
        except self.library.NVMLError:
            return ""
        return text.decode() if isinstance(text, bytes) else str(text)


def open_driver(uuid: str | None) -> Driver:
    """Return the driver's view of the GPU with this UUID; of none where it cannot be asked."""
    if uuid is None:
        return Driver()
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return Driver()
    try:
        library.nvmlInit()
    except library.NVMLError:
        return Driver()
    names = [uuid] if uuid.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"]
    for name in names:
        try:
            return Driver(library, library.nvmlDeviceGetHandleByUUID(name), name.startswith("MIG-"))
        except library.NVMLError:
            continue
    return Driver(library)
