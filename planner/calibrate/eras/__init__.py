"""Eras: what a training framework of a given time did, where that differs from today's runtime.

A run table names its framework in free text. The text, and nothing about the source or the row, finds an
era: the runtime that prices it, the traits in which it differed, and what its users left at default. Eras are
files of ``hardware_profiles/eras``, one for each program; the most particular match is meant, in no order of
files. A framework without a version is taken to be as new as the accelerator it ran on: on A100 and older,
unversioned Megatron-LM without flash attention is that of 2020-22, and on Hopper and later Megatron-core.

The numbers are starting points from the literature of each framework; `planner calibrate` refines them.
"""

from __future__ import annotations

from functools import cache, lru_cache

from planner.calibrate.eras.files import shipped
from planner.calibrate.eras.match import matches
from planner.calibrate.eras.record import Era

__all__ = ["Era", "eras", "find_era", "unmeasured"]


@cache
def eras() -> tuple[Era, ...]:
    """Return all eras that ship, by program."""
    return tuple(era for program in shipped() for era in program.eras)


@cache
def unmeasured() -> frozenset[str]:
    """Return the eras without a published run, whose prices nobody has compared."""
    return frozenset(era.name for era in eras() if not era.measured)


@lru_cache(maxsize=4096)
def find_era(framework: str, gpu: str, flash_attn: int | None, zero: str = "") -> Era | None:
    """Return the era that a framework text means, or None where no runtime prices that framework.

    ``framework``: as a run table has it; ``flash_attn``: generation of its flash attention, 0 without, None
    where nothing is stated; ``zero``: stage of ZeRO, empty where nothing is stated.

    Examples
    --------
    >>> [find_era("megatron-lm", gpu, None).name for gpu in ("a100", "h100")]
    ['megatron-2020-22', 'megatron-lm']
    """
    found = matches(framework, gpu, flash_attn, zero, shipped())
    return found[0].era if found else None
