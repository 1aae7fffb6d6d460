"""What kinds of value DeepSpeed takes for the keys of its file.

References
----------
.. [1] DeepSpeed 0.19.8, deepspeed/runtime/zero/config.py and offload_config.py (pydantic, no further keys),
   deepspeed/runtime/precision_config.py, deepspeed/runtime/config_utils.py.
"""

from __future__ import annotations

import re
from typing import Any, Final

from planner.runtimes.imports.schemas import Kind, among, is_count, is_switch


def _fraction(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _scale(value: Any) -> bool:
    """Return whether DeepSpeed takes a value for a loss scale: a finite number of 0 or more."""
    if isinstance(value, bool):
        return False
    try:
        return 0 <= float(value) < float("inf")
    except (TypeError, ValueError):
        return False


ZERO: Final = r"zero_optimization\."
SWITCHES: Final = (
    r"expert_parallel\.enabled|wall_clock_breakdown|memory_breakdown|prescale_gradients|sparse_gradients"
)
COUNTS: Final = r"fp16\.(?:initial_scale_power|loss_scale_window|hysteresis|min_loss_scale)"
OFFLOADS: Final = ("none", "cpu", "nvme")
RATES: Final = ("LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
"""DeepSpeed, deepspeed/runtime/lr_schedules.py, ``VALID_LR_SCHEDULES``."""

TAGS: Final = ("WARN", "IGNORE", "FAIL")
"""DeepSpeed, deepspeed/runtime/constants.py, ``ValidationMode``."""

DEEPSPEED: Final = (
    Kind(
        re.compile(r"checkpoint\.tag_validation"),
        lambda value: str(value).upper() in TAGS,
        "Warn, Ignore or Fail",
    ),
    Kind(
        re.compile(r"checkpoint\.parallel_write\.pipeline_stage"),
        is_switch,
        "true or false",
    ),
    Kind(
        re.compile("wall_clock_breakdown|memory_breakdown"),
        lambda value: value is not None,
        "a value, or no such key",
        null=False,
    ),
    Kind(re.compile(SWITCHES), is_switch, "true or false"),
    Kind(re.compile(COUNTS), is_count, "a whole number, 0 or more"),
    Kind(re.compile(r"fp16\.loss_scale"), _scale, "a number, 0 or more; 0 is dynamic"),
    Kind(re.compile(rf"{ZERO}reduce_bucket_size"), lambda v: is_count(v) and float(v) > 0, "1 or more"),
    Kind(re.compile(rf"{ZERO}stage"), lambda v: is_count(v) and float(v) <= 3, "0, 1, 2 or 3"),
    Kind(re.compile(rf"{ZERO}offload_\w+\.device"), among(*OFFLOADS), "none, cpu or nvme"),
    Kind(
        re.compile(rf"{ZERO}allgather_bucket_size"),
        lambda value: not is_count(value) or float(value) % 2 == 0,
        "an even number: its parts are aligned in pairs",
    ),
    Kind(re.compile(r"scheduler\.type"), among(*RATES), ", ".join(RATES)),
    Kind(
        re.compile(r"elasticity\.enabled"),
        lambda value: not is_switch(value) or str(value).lower() in ("false", "no", "off", "0", "f", "n"),
        "false: newest releases refuse it, and older ones choose a batch of their own",
    ),
    Kind(re.compile(rf"{ZERO}offload_optimizer\.ratio"), _fraction, "0 to 1"),
    Kind(re.compile(r"gradient_predivide_factor"), lambda v: isinstance(v, int | float), "a number"),
    Kind(
        re.compile(r"data_types\.grad_accum_dtype"),
        among("fp32", "fp16", "bf16", "bfp16", "bfloat16", "float", "float32", "float16", "half", "None"),
        "fp32, fp16 or bf16",
    ),
)
