"""Which allocator runs of Hugging Face's libraries have: one of fixed segments, unless they say otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from planner.dataclasses import replace
from planner.inputs.bounded import is_file
from planner.inputs.yaml_file import read_text
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.libraries.reading.trainer import FOREACH
from planner.techniques.allocators import ALLOCATORS

VARIABLES: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
GROWS: Final = re.compile(r"expandable_segments[\"']?\s*[:=]\s*[\"']?true", re.IGNORECASE)

FIXED: Final = ALLOCATORS["fixed"]
NOTE: Final = (
    "no PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: segments of PyTorch's allocator do not grow, which "
    f"needs {FIXED.needed:.0%} of what passes take and may show {FIXED.shown:.0%}; if it is set elsewhere: "
    "--set allocator=growing"
)


def allocated(found: Imported, path: Path) -> Imported:
    """Return what a file says, with the allocator that its processes have.

    Launch files of the planner set the variable in the script beside them. Where FSDP or DDP runs, AdamW is
    PyTorch's.
    """
    if found.runtime != "fsdp":
        found = replace(found, changes=tuple(one for one in found.changes if one not in FOREACH))
    # a plan, whose launch files set the variable, or a library that does
    saved = "hardware" in found.cluster or "allocator=growing" in found.changes
    if found.runtime not in ("fsdp", "deepspeed") or saved or any(map(GROWS.search, _said(path))):
        return found
    return replace(found, changes=(*found.changes, f"allocator={FIXED.name}"), notes=(*found.notes, NOTE))


def _said(path: Path) -> Iterable[str]:
    """Yield the texts that may set the variable: the environment, the file, and scripts beside it."""
    yield from (os.environ.get(name, "") for name in VARIABLES)
    beside = (path.with_name(name) for name in ("train.sh", "train.sbatch"))
    yield from (read_text(one) for one in (path, *beside, path.with_suffix(".sh")) if is_file(one))
