"""The device that is measured, and the only door to torch."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.profile.stopped import Stopped
from planner.units import MIB, is_whole

NEEDS_TORCH: Final = "PyTorch is not installed; install it with: pip install 'parallelism-planner[profile]'"
KINDS: Final = ("cpu", "cuda")


@dataclass(frozen=True)
class Device:
    """One accelerator, or the processor, as torch sees it."""

    kind: str
    """``cpu`` or ``cuda``; AMD's devices are ``cuda`` in torch."""
    index: int
    """Number among the visible devices."""
    name: str
    """Product name."""
    memory: float
    """What the device reports. [byte]"""
    cache: float
    """Last cache that all multiprocessors share. [byte]"""
    multiprocessors: int
    """Streaming multiprocessors, or threads of a processor. [-]"""
    capability: float
    """CUDA compute capability such as 9.0; 0 where there is none. [-]"""
    torch: Any
    """The torch module."""

    @property
    def where(self) -> str:
        """As torch writes it: ``cpu`` or ``cuda:0``."""
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def is_cpu(self) -> bool:
        """Whether it is the processor."""
        return self.kind == "cpu"

    def dtype(self, name: str) -> Any:
        """Return torch's dtype for ``bf16``, ``fp16`` or ``fp32``."""
        words = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
        return getattr(self.torch, words[name])

    @property
    def out_of_memory(self) -> type[BaseException]:
        """What torch raises where memory runs out."""
        error: type[BaseException] = getattr(self.torch, "OutOfMemoryError", MemoryError)
        return error

    def finish(self) -> None:
        """Wait until the device has done all of its work."""
        if not self.is_cpu:
            self.torch.cuda.synchronize(self.index)


def torch_module() -> Any:
    """Return the torch module.

    Raises `Stopped` if it is not installed or does not load.
    """
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise Stopped(NEEDS_TORCH) from None
    except (ImportError, OSError) as error:
        raise Stopped(f"PyTorch is installed but does not load: {error}") from None


def read_device(text: str) -> tuple[str, int]:
    """Return kind and index of ``cpu``, ``cuda`` or ``cuda:1``; without an index, the rank's own.

    Raises `InputError` if ``text`` is none of these.
    """
    kind, colon, number = text.strip().lower().partition(":")
    if kind not in KINDS or (colon and not is_whole(number)):
        raise InputError(Problem("--device", repr(text), "cpu, cuda or cuda:N", "cuda:0"))
    return kind, int(number) if colon else int(os.environ.get("LOCAL_RANK", "0"))


def open_device(text: str) -> Device:
    """Return the device that ``text`` names.

    Raises `Stopped` if torch is missing, or it sees no such device; `InputError` if ``text`` names none.
    """
    kind, index = read_device(text)
    torch = torch_module()
    return _processor(torch) if kind == "cpu" else _accelerator(torch, index)


def _processor(torch: Any) -> Device:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Device("cpu", 0, processor_name(), float(pages), 32 * MIB, torch.get_num_threads(), 0.0, torch)


def processor_name() -> str:
    """Return the model name of the processor, as Linux tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "processor")


def _why_none(torch: Any) -> str:
    """Return why torch sees no GPU, in the driver's own words where it has some."""
    if not (torch.version.cuda or getattr(torch.version, "hip", None)):
        return "this PyTorch is built for the CPU alone"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return (str(error).splitlines() or ["no driver or no device"])[0][:200]
    return "no driver or no device"


def _accelerator(torch: Any, index: int) -> Device:
    if not torch.cuda.is_available():
        reason = _why_none(torch)
        raise Stopped(
            f"PyTorch {torch.__version__} sees no GPU ({reason}); --device cpu measures the processor"
        )
    count = torch.cuda.device_count()
    if index >= count:
        raise InputError(Problem("--device", f"cuda:{index}", f"one of cuda:0 to cuda:{count - 1}"))
    torch.cuda.set_device(index)
    facts = torch.cuda.get_device_properties(index)
    return Device(
        kind="cuda",
        index=index,
        name=facts.name,
        memory=float(facts.total_memory),
        cache=float(getattr(facts, "L2_cache_size", 0) or 64 * MIB),
        multiprocessors=int(facts.multi_processor_count),
        capability=float(f"{facts.major}.{facts.minor}"),
        torch=torch,
    )
