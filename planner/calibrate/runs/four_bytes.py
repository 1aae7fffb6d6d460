"""Runs in fp32, whose values have four bytes: 16-bit runs on a machine of half the rates and memory."""

from __future__ import annotations

from typing import Final

from planner.calibrate.runs.checks import Refusal
from planner.calibrate.runs.table import Run
from planner.inputs.hardware import HardwareProfile, reached
from planner.inputs.record import Sourced

WIDE: Final = {"tf32": "tf32", "fp32": "fp32"}
"""Precisions of products on values of four bytes, and the peak that they have. TF32 reads fp32 as it is."""

HALF: Final = 0.5
"""Bytes of a 16-bit value over those of an fp32 one. [-]"""

ALONE: Final = "bf16-true"
"""Words of a row whose weights have no copies of another dtype: what fp32 is in terms of its own bytes."""


def in_two_bytes(run: Run, hardware: HardwareProfile) -> tuple[Run, HardwareProfile]:
    """Return a run in fp32 as one in 16 bits and the machine on which that takes as long; others as they are.

    All that memory, links and network carry has twice the bytes, so that they have half the rates, and memory
    half its size; products have the peak of TF32, or of fp32. Latencies and the host's times stay.

    Raises `Refusal` if the accelerator's file says no such peak.
    """
    kind = WIDE.get(run.precision.lower())
    if kind is None:
        return run, hardware
    pool, chip = hardware.pool, hardware.pool.accelerator
    if kind not in chip.peak:
        raise Refusal(
            run, "precision", repr(run.precision), f"a format of {chip.name}: {', '.join(chip.peak)}"
        )
    rates = {
        "memory": chip.memory,
        "memory_visible": chip.memory_visible,
        "memory_bandwidth": chip.memory_bandwidth,
    }
    halves: dict[str, object] = {name: _share(value, HALF) for name, value in rates.items()}
    halves["memory_driver"] = _share(chip.memory_driver, HALF) if chip.memory_driver else None
    halves["peak"] = chip.peak | {name: chip.peak[kind] for name in ("bf16", "fp16") if name in chip.peak}
    links = {name: getattr(chip, name) for name in ("host_link", "host_copy")}
    halves |= {name: _share(rate, HALF) if rate else None for name, rate in links.items()}
    shares = {
        name: _share(Sourced(reached(getattr(pool, name))), HALF)
        for name in ("scaleup_share", "network_share")
    }
    slow = chip.model_copy(update=halves)
    slower = pool.model_copy(update={"accelerator": slow, **shares})
    said: dict[str, object] = {"precision": "bf16", "overlap": " | ".join(filter(None, (run.overlap, ALONE)))}
    if run.peak_mem_gib:
        said["peak_mem_gib"] = run.peak_mem_gib * HALF
    return run.with_values(said), hardware.model_copy(update={"pools": (slower,)})


def _share(value: Sourced, share: float) -> Sourced:
    return Sourced(value * share, f"{value * share:g}", value.source, "derived")
