"""Rules of Megatron-core and Transformer Engine on number formats."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.inputs.hardware import Accelerator
from planner.inputs.model import LatentAttention
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import Architecture
from planner.runtimes.offered import offered


@dataclass(frozen=True)
class PrecisionRecipe:
    """One low-bit recipe of Transformer Engine."""

    rows: int
    columns: int
    """What the number of tokens and the width of a product's operands are multiples of. [element]"""
    capability: float
    """Compute capability from which on NVIDIA's accelerators can run it."""
    below: float = math.inf
    """Compute capability from which on they cannot."""
    on_rocm: bool = True
    """Whether AMD's can."""

    def runs_on(self, device: Accelerator) -> bool:
        """Return whether an accelerator can run it; one of unknown capability is taken to."""
        capability = device.compute_capability
        known = capability is None or self.capability <= capability < self.below
        return known and (self.on_rocm or device.vendor.lower() != "amd")

    @property
    def expected(self) -> str:
        """What runs it, in words."""
        most = "" if math.isinf(self.below) else f", below {self.below}"
        return f"compute capability {self.capability} or more{most}" + ", not on ROCm" * (not self.on_rocm)


RECIPES: Final = {
    "fp8": PrecisionRecipe(8, 16, 8.9),
    "fp8-delayed": PrecisionRecipe(8, 16, 8.9),
    "fp8-block": PrecisionRecipe(8, 16, 9.0, on_rocm=False),
    "mxfp8": PrecisionRecipe(32, 32, 10.0, below=12.0),
    "nvfp4": PrecisionRecipe(16, 16, 10.0),
}
"""Transformer Engine 2.9: utils.py `assert_dim_for_fp8_exec`, `is_quantizable` of each tensor, fp8.py. What
runs where: d0067d0d and ROCm's 030b7921, pytorch/quantization.py; ROCm's blocks need a build of theirs since.
"""

PRECISIONS: Final = ("bf16", "fp16", *RECIPES)


def precision_rules(plan: Plan, job: Job, arch: Architecture) -> list[Rule]:
    """Return the rules on the workload's number format."""
    precision = job.workload.precision
    rules = [offered("precision-offered", "precision", precision, PRECISIONS)]
    recipe = RECIPES.get(precision)
    if recipe is None:
        return rules
    device = job.hardware.pool.accelerator
    capability = device.compute_capability
    tokens = (
        job.workload.seq_len * plan.micro_batch / (plan.cp * (plan.tp if plan.sequence_parallel else 1.0))
    )
    widths = _widths(plan, job.model.hidden, arch)
    return [
        *rules,
        Rule(
            "precision-on-accelerator",
            recipe.runs_on(device),
            lambda: (
                f"precision {precision} on "
                + (f"compute capability {capability}" if capability else device.name),
                recipe.expected,
                "fp8" if "fp8" in device.peak and RECIPES["fp8"].runs_on(device) else "bf16",
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
