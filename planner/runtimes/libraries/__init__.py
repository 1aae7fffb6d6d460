"""Fine-tuning libraries above Hugging Face's Trainer, one file each, in one table: targets, not runtimes.

They train by FSDP2 or DeepSpeed through Accelerate, so that a plan for one of these runtimes is one for them
too; what they cannot say of it is told in `Library.fixed` and by their writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.registry import load_family
from planner.runtimes.libraries.family import Library

SHARED = ("reading",)
"""What reads the files of libraries, which is none."""


@cache
def libraries() -> Mapping[str, Library]:
    """Return the table of libraries by name."""
    return load_family(__name__, Library)


def library_named(name: str | None) -> Library | None:
    """Return the library of a name or alias, None where it is none of them.

    Examples
    --------
    >>> library_named("LLaMAFactory").title, library_named("fsdp")
    ('LLaMA-Factory', None)
    """
    word = (name or "").strip().lower()
    return next((one for one in libraries().values() if word in (one.name, *one.aliases)), None)
