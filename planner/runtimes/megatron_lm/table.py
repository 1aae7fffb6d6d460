"""Flags of Megatron-LM that stand for one axis or setting each: written by ``flags``, read by ``--from``."""

from __future__ import annotations

from typing import Final

from planner.plan import Plan

DEGREES: Final = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "etp": "--expert-tensor-parallel-size",
}
"""The flag of each degree of a plan."""

DEGREE_FIELDS: Final = {name: flag.removeprefix("--").replace("-", "_") for name, flag in DEGREES.items()}
"""The field of each degree in Megatron-core's configurations, as Bridge and NeMo have them."""

VIRTUAL: Final = "virtual_pipeline_model_parallel_size"
"""The field of the chunks of a pipeline rank."""

SHARDING: Final = {2: "optim_grads", 3: "optim_grads_params"}
"""Values of ``--data-parallel-sharding-strategy`` by ZeRO stage."""

PRECISION: Final[dict[str, tuple[str, ...]]] = {
    "bf16": (),
    "fp16": (),
    "fp8": ("--fp8-format", "hybrid", "--fp8-recipe", "tensorwise"),
    "fp8-delayed": (
        *("--fp8-format", "hybrid", "--fp8-recipe", "delayed"),
        *("--fp8-amax-history-len", "1024", "--fp8-amax-compute-algo", "max"),
    ),
    "fp8-block": ("--fp8-format", "e4m3", "--fp8-recipe", "blockwise"),
    "mxfp8": ("--fp8-format", "e4m3", "--fp8-recipe", "mxfp8"),
    "nvfp4": ("--fp4-format", "e2m1", "--fp4-recipe", "nvfp4"),
}
"""The flags of each precision, beside ``--bf16`` or ``--fp16``."""

RECIPES: Final = {
    flags[flags.index("--fp8-recipe") + 1]: name
    for name, flags in PRECISION.items()
    if "--fp8-recipe" in flags
}
"""The precision that each value of ``--fp8-recipe`` stands for."""


def degree_fields(plan: Plan, *names: str) -> dict[str, int]:
    """Return the fields of the degrees that are named with their values, for a scalar plan."""
    return {DEGREE_FIELDS[name]: int(getattr(plan, name)) for name in names}


def degree_flags(plan: Plan, *names: str) -> list[str]:
    """Return the flags of the degrees that are named, for a scalar plan."""
    return [word for name in names for word in (DEGREES[name], f"{getattr(plan, name):.0f}")]
