"""Rules of Megatron-core and Transformer Engine on number formats."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.inputs.model import LatentAttention
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import Architecture
from planner.runtimes.offered import offered


@dataclass(frozen=True)
class PrecisionRecipe:
    """One low-bit recipe of Transformer Engine.

    Parameters
    ----------
    rows, columns : int
        What the number of tokens and the width of a product's operands are multiples of. [element]
    capability : float
        Compute capability from which on the accelerator can run it.
    """

    rows: int
    columns: int
    capability: float


RECIPES: Final = {
    "fp8": PrecisionRecipe(8, 16, 8.9),
    "fp8-delayed": PrecisionRecipe(8, 16, 8.9),
    "fp8-block": PrecisionRecipe(8, 16, 9.0),
    "mxfp8": PrecisionRecipe(32, 32, 10.0),
    "nvfp4": PrecisionRecipe(16, 16, 10.0),
}
"""Transformer Engine 2.9: utils.py `assert_dim_for_fp8_exec`, `is_quantizable` of each tensor, fp8.py."""

PRECISIONS: Final = ("bf16", "fp16", *RECIPES)


def precision_rules(plan: Plan, job: Job, arch: Architecture) -> list[Rule]:
    """Return the rules on the workload's number format."""
    precision = job.workload.precision
    rules = [offered("precision-offered", "precision", precision, PRECISIONS)]
    recipe = RECIPES.get(precision)
    if recipe is None:
        return rules
    capability = job.hardware.pool.accelerator.compute_capability
    tokens = (
        job.workload.seq_len * plan.micro_batch / (plan.cp * (plan.tp if plan.sequence_parallel else 1.0))
    )
    widths = _widths(plan, job.model.hidden, arch)
    return [
        *rules,
        Rule(
            "precision-on-accelerator",
            capability is None or capability >= recipe.capability,
            lambda: (
                f"precision {precision} on compute capability {capability}",
                f"compute capability {recipe.capability} or more",
                "fp8" if capability and capability >= RECIPES["fp8"].capability else "bf16",
            ),
        ),
        Rule(
            "low-bit-tokens",
            divides(float(recipe.rows), tokens),
            lambda: (f"{tokens:g} tokens of a rank in {precision}", f"a multiple of {recipe.rows}", "bf16"),
        ),
        Rule(
            "low-bit-widths",
            np.logical_and.reduce(
                np.broadcast_arrays(*(divides(float(recipe.columns), width) for width in widths))
            ),
            lambda: (
                f"widths {', '.join(f'{width:g}' for width in widths)} of a rank in {precision}",
                f"multiples of {recipe.columns}",
                "a smaller tp, or bf16",
            ),
        ),
    ]


def _widths(plan: Plan, hidden: int, arch: Architecture) -> list[Num]:
    mixer = arch.mixer
    widths: list[Num] = [float(hidden), mixer.heads * mixer.value_head_dim / plan.tp]
    if not isinstance(mixer, LatentAttention):
        widths.append((mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim / plan.tp)
    if arch.dense is not None:
        widths.append(arch.dense.inner / plan.tp)
    if arch.experts is not None:
        widths += [arch.experts.inner / plan.etp, float(arch.experts.width(hidden))]
    return widths
