"""Whether a device can be measured: not in use, not cut, not slowed down, and able to multiply."""

from __future__ import annotations

from typing import Any, Final

from planner.profile.device import Device
from planner.profile.nvml import Driver, PowerReading
from planner.profile.stopped import Stopped
from planner.units import GIB, show

IDLE_BYTES: Final = GIB
"""Memory in use on a GPU that counts as free: contexts of monitors, its own as a container sees it. [byte]"""
IDLE_WITH_OWN_CONTEXT: Final = 2 * GIB
"""The same where the driver tells no processes, with this process's own context. [byte]"""
SLICE: Final = " MIG "
"""What the product name of a slice has in it."""


def uuid_of(device: Device) -> str | None:
    """Return the UUID by which the driver knows a device."""
    if device.is_cpu:
        return None
    uuid = getattr(device.torch.cuda.get_device_properties(device.index), "uuid", None)
    return None if uuid is None else str(uuid)


def check_free(device: Device, driver: Driver) -> None:
    """Refuse a GPU that others use, that is cut into slices, or that is slowed down.

    Raises `Stopped` with the reason and the way out.
    """
    if driver.is_sliced() or SLICE in device.name:
        raise Stopped(
            f"{device.where} ({device.name}) is cut into MIG slices, and a slice is no measure of the whole: "
            "switch MIG off, or name another device with --device"
        )
    if held := held_by_others(device, driver):
        raise Stopped(
            f"{device.where} ({device.name}) is busy: {held}; stop them, name another device with --device, "
            "or measure all the same with --allow-busy"
        )
    refuse_slow(device, driver.reading())


def held_by_others(device: Device, driver: Driver) -> str:
    """Return in words who holds a GPU's memory, empty where hardly any is held.

    Inside a container the driver names no processes of others: then the memory that is in use tells.
    """
    users = driver.users()
    if sum(user.nbytes for user in users) > IDLE_BYTES:
        return ", ".join(f"process {user.pid} holds {show(user.nbytes, 'byte')}" for user in users)
    used = memory_in_use(device)
    if used > IDLE_WITH_OWN_CONTEXT:
        return f"{show(used, 'byte')} of its memory are in use by processes that the driver does not name"
    return ""


def memory_in_use(device: Device) -> float:
    """Return the memory of a GPU that is not free, what torch itself keeps left out. [byte]"""
    if device.is_cpu:
        return 0.0
    try:
        free, total = device.torch.cuda.mem_get_info(device.index)
        return float(total - free - device.torch.cuda.memory_reserved(device.index))
    except (AttributeError, RuntimeError):
        return 0.0


def refuse_slow(device: Device, reading: PowerReading) -> None:
    """Refuse a GPU that heat or a brake slows down before anything runs.

    Raises `Stopped` with the reasons that the driver gives.
    """
    if reading.slowdowns:
        warm = f" at {reading.temperature_c:.0f} C" if reading.temperature_c is not None else ""
        raise Stopped(
            f"{device.where} ({device.name}) is throttled{warm} ({', '.join(reading.slowdowns)}): "
            "let it cool or mend its supply, or measure all the same with --allow-busy"
        )


def works(torch: Any, where: str) -> str:
    """Multiply on a device and compare with the exact result; return what is wrong, or nothing."""
    try:
        ones = torch.ones(256, 256, dtype=torch.float32, device=where)
        total = float((ones @ ones).sum())
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "" if total == 256.0**3 else f"a product of ones gives {total:g}, not {256.0**3:g}"


def check_works(device: Device, alone: bool = False) -> list[str]:
    """Refuse a device that cannot multiply, and return notes on the others of its host.

    ``device``: what is to be measured; ``alone``: leave the others to the ranks that drive them.

    Raises `Stopped` if the device itself is broken.
    """
    count = 1 if device.is_cpu or alone else device.torch.cuda.device_count()
    notes = []
    for where in [device.where] if count == 1 else [f"cuda:{index}" for index in range(count)]:
        fault = works(device.torch, where)
        if fault and where == device.where:
            raise Stopped(
                f"{where} ({device.name}) is broken: {fault}; take it out with CUDA_VISIBLE_DEVICES"
            )
        if fault:
            notes.append(f"{where} is broken ({fault}); take it out before training")
    return notes


def roomy(device: Device, nbytes: float) -> bool:
    """Whether this much memory can be used beside what the context takes."""
    return nbytes < min(0.8 * device.memory, device.memory - GIB)
