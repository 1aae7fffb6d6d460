"""Logs of training runs: seconds or tokens of each step, and the memory at its peak, whoever printed them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.inputs.yaml_file import read_text
from planner.units import GIB, MIB

WARM_UP: Final = 3
"""First steps that are left out where more are left: they compile, allocate and fill pipelines."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER: Final = r"([0-9][0-9,]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)"
_HUMAN: Final[Mapping[str, float]] = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_MEMORY: Final[Mapping[str, float]] = {
    "MIB": MIB, "MB": MIB, "GIB": GIB, "GB": GIB, "": MIB,
}  # fmt: skip
"""Bytes of the units that these programs print; all of them divide by powers of two."""


@dataclass(frozen=True)
class LogFormat:
    """How one program says how fast it is and what it holds."""

    name: str
    """Who prints it."""
    sign: str
    """Regular expression that its logs alone have."""
    speed: str
    """Its number, and a letter for thousands where it has one, of each step."""
    kind: str
    """What the number is: ``seconds``, ``milliseconds``, ``tokens/s/gpu``, ``samples/s`` or ``steps/s``."""
    memory: tuple[str, ...] = ()
    """The peak and its unit, the best of several first."""


FORMATS: Final = (
    LogFormat(
        "Megatron",
        r"elapsed time per iteration \(ms\):",
        rf"elapsed time per iteration \(ms\):\s*{_NUMBER}()",
        "milliseconds",
        (rf"max reserved:\s*{_NUMBER}()", rf"max allocated:\s*{_NUMBER}()"),
    ),
    LogFormat(
        "torchtitan",
        r"step:\s*\d+ .*\b(?:tps|wps):",
        rf"\b(?:tps|wps):\s*{_NUMBER}()",
        "tokens/s/gpu",
        (rf"memory:\s*{_NUMBER}(GiB)",),
    ),
    LogFormat(
        "DeepSpeed",
        r"CurrSamplesPerSec=",
        rf"CurrSamplesPerSec={_NUMBER}()",
        "samples/s",
        (rf"MaxMemAllocated=\s*{_NUMBER}\s*(GB)",),
    ),
    LogFormat(
        "nanotron",
        r"time_per_iteration_ms:",
        rf"time_per_iteration_ms:\s*{_NUMBER}([KM]?)",
        "milliseconds",
        (rf"Peak reserved:\s*{_NUMBER}\s*(MiB)", rf"Peak allocated\s*{_NUMBER}\s*(MiB)"),
    ),
    LogFormat("NeMo", r"train_step_timing in s\W", rf"train_step_timing in s\W+{_NUMBER}()", "seconds"),
    LogFormat(
        "Composer",
        r"throughput/device/tokens_per_sec\W",
        rf"throughput/device/tokens_per_sec\W+{_NUMBER}()",
        "tokens/s/gpu",
    ),
    LogFormat(
        "the planner's scripts",
        r"\bstep \d+.* seconds [0-9.]+",
        rf"\bseconds\s+{_NUMBER}()",
        "seconds",
        (rf"peak memory\s+{_NUMBER}\s+(GiB) reserved",),
    ),
    LogFormat(
        "the Hugging Face trainer",
        r"train_steps_per_second|\d+/\d+ \[\d[\d:]*<[\d:?]+,\s*[\d.]+(?:s/it|it/s)\]?",
        rf"['\"]train_steps_per_second['\"]:\s*['\"]?{_NUMBER}()",
        "steps/s",
    ),
)  # fmt: skip
"""Programs whose logs are read, in the order in which they are recognised."""

_BAR: Final = re.compile(rf"(\d+)/\d+ \[\d[\d:]*<[\d:?]+,\s*{_NUMBER}(s/it|it/s)")
_OOM: Final = re.compile(r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED")
_IN_USE: Final = re.compile(rf"{_NUMBER}\s*(GiB|MiB) memory in use")
_PROCESSORS: Final = re.compile(r"^devices: cpu$", re.MULTILINE)
_TRIED: Final = re.compile(rf"Tried to allocate {_NUMBER}\s*(GiB|MiB)")


@dataclass(frozen=True)
class RunLog:
    """What a log says of a run."""

    source: str
    """Who printed it; empty where only the end of a run was recognised."""
    steps: int
    """Steps that it tells of."""
    speed: float | None
    kind: str
    """The median after the first steps, and what it is."""
    peak: float | None
    """Most device memory that it tells of. [byte]"""
    out_of_memory: bool
    """Whether the run ran out of device memory."""
    asked: float | None = None
    """What it asked for last, then. [byte]"""
    on_processors: bool = False
    """Whether it says that it ran on processors, not on accelerators."""

    def seconds(self, global_batch: float, seq_len: float, gpus: int) -> float | None:
        """Return the time of an optimizer step of so many sequences. [s]"""
        if self.speed is None or self.speed <= 0:
            return None
        return {
            "seconds": self.speed,
            "milliseconds": self.speed / 1000,
            "steps/s": 1 / self.speed,
            "samples/s": global_batch / self.speed,
            "tokens/s/gpu": global_batch * seq_len / self.speed / gpus,
        }[self.kind]


def read_run_log(path: Path) -> RunLog:
    """Return what a log of a training run says.

    Raises `InputError` if it cannot be read, or no known program printed it and nothing ran out of memory in
    it.
    """
    text = _COLOUR.sub("", read_text(path))
    known = next((one for one in FORMATS if re.search(one.sign, text, re.MULTILINE)), None)
    out, in_use = _OOM.search(text) is not None, [_bytes(*found) for found in _IN_USE.findall(text)]
    asked = [_bytes(*found) for found in _TRIED.findall(text)]
    if known is None and not out:
        names = ", ".join(one.name for one in FORMATS)
        raise InputError(Problem(str(path), "no step times", f"a log of {names}"))
    speeds, kind = _speeds(text, known) if known is not None else ([], "")
    kept = speeds[WARM_UP:] if len(speeds) > WARM_UP else speeds[-1:]
    peaks = _peaks(text, known) if known is not None else []
    return RunLog(
        source=known.name if known is not None else "",
        steps=len(speeds),
        speed=median(kept) if kept else None,
        kind=kind,
        peak=max([*peaks, *in_use], default=None),
        out_of_memory=out,
        asked=asked[-1] if asked else None,
        on_processors=_PROCESSORS.search(text) is not None,
    )


def _speeds(text: str, known: LogFormat) -> tuple[list[float], str]:
    """Return the numbers of all steps, and what they are; of a progress bar, where there are no others."""
    found = [_value(number) * _HUMAN[letter] for number, letter in re.findall(known.speed, text)]
    if found or known.kind != "steps/s":
        return found, known.kind
    bars = {step: (_value(number), unit) for step, number, unit in _BAR.findall(text)}
    return [number if unit == "s/it" else 1 / number for number, unit in bars.values() if number], "seconds"


def _peaks(text: str, known: LogFormat) -> list[float]:
    """Return the memory that a log tells of, by the best of its words. [byte]"""
    for pattern in known.memory:
        found = re.findall(pattern, text)
        if found:
            return [_bytes(*one) for one in found]
    return []


def _bytes(number: str, unit: str) -> float:
    return _value(number) * _MEMORY[unit.upper()]


def _value(number: str) -> float:
    return float(number.replace(",", ""))
