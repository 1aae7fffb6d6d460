"""Eras: what a training framework of a given time did, where that differs from today's runtime.

A run table names its framework in free text. The text, and nothing about the source or the row, finds an era:
the runtime that prices it, the traits in which it differed, and what its users left at default. A framework
without a version is taken to be as new as the accelerator it ran on: on A100 and older, unversioned
Megatron-LM without flash attention is that of 2020-22, and on Hopper and later it is Megatron-core.

The numbers are starting points from the literature of each framework; `planner calibrate` refines them.
"""

from __future__ import annotations

import re
from typing import Final

from planner.calibrate.eras import deepspeed, fsdp, in_house, megatron, nanotron, recipes, torchtitan
from planner.calibrate.eras._era import BEFORE_HOPPER, Era

__all__ = ["ERAS", "UNMEASURED", "Era", "find_era"]

ERAS: Final = (
    megatron.ZERO_BUBBLE_2023,
    recipes.MEGATRON_BRIDGE_GRAPH,
    recipes.MEGATRON_BRIDGE_EARLY,
    recipes.MEGATRON_BRIDGE,
    recipes.NEMO_2025,
    recipes.NEMO_2024,
    deepspeed.MEGATRON_DEEPSPEED_2023,
    deepspeed.MEGATRON_DEEPSPEED_ZERO3,
    deepspeed.MEGATRON_DEEPSPEED,
    megatron.ONEFLOW_2021,
    megatron.MEGATRON_2020_22,
    in_house.INTERNEVO_2023,
    in_house.MEGATRON_LIKE_OVERLAPPED,
    in_house.MEGATRON_LIKE,
    megatron.MEGATRON_CORE,
    megatron.MEGATRON_RELATIVES,
    fsdp.RING_SELF_ATTENTION_2021,
    fsdp.SEQUENCE_2023,
    deepspeed.DEEPSPEED_2021,
    deepspeed.DEEPSPEED_2023,
    deepspeed.DEEPSPEED,
    fsdp.LLM_FOUNDRY_2023,
    torchtitan.TORCHTITAN_2024,
    torchtitan.TORCHTITAN_2025,
    torchtitan.TORCHTITAN_022,
    torchtitan.TORCHTITAN,
    fsdp.LITGPT,
    fsdp.DATA_PARALLEL,
    fsdp.XLA,
    fsdp.FSDP,
    nanotron.NANOTRON,
)
"""All eras, the most particular first: the first that matches is the run's."""

UNMEASURED: Final = frozenset(era.name for era in ERAS if not era.measured)
"""Eras without a published run, whose prices nobody has compared."""


def find_era(framework: str, gpu: str, flash_attn: int | None, zero: str = "") -> Era | None:
    """Return the era that a framework text means, or None where no runtime prices that framework.

    Examples
    --------
    >>> [find_era("megatron-lm", gpu, None).name for gpu in ("a100", "h100")]
    ['megatron-2020-22', 'megatron-lm']
    """
    text, gpu = framework.lower(), gpu.lower()
    old = not flash_attn and bool(re.search(BEFORE_HOPPER, gpu))
    sharded = zero == "3" or zero.startswith("hsdp")
    held = (era for era in ERAS if sharded or not era.zero3_only)
    named = (era for era in held if re.search(era.pattern, text) and re.search(era.gpus, gpu))
    return next((era for era in named if old or not era.old_only), None)
