"""Traits as Megatron-LM's flags: what a user changed with ``--set`` is what starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import architecture
from planner.runtimes.megatron_lm.choices import CORE_CHOICES, choice_flags, fused_backend
from planner.runtimes.settings import Changes, Settings

SETTINGS: Final[Settings] = {
    **CORE_CHOICES,
    "attention": ("flash-2", "unfused"),
    "dispatcher": ("fused",),
    "dropout": (True,),
    "dp_exposed": (1.0,),
    "fused_activation": (False,),
    "fused_rope": (False,),
    "fused_weight_gradient": (False,),
    "gradient_dtype": ("bf16",),
    "loss": ("vocab-parallel",),
    "reduce_dtype": ("bf16",),
}
"""Values that Megatron-core's settings can bring about; dp_exposed 1 is no overlap at all."""

BACKENDS: Final = {"flash-3": "auto", "flash-2": "flash", "unfused": "unfused"}
"""The planner's attention kernel to Megatron-core's backend."""

DISPATCHER: Final = "--moe-token-dispatcher-type"

PRECISION_AWARE: Final = "--use-precision-aware-optimizer"
"""States of other dtypes than fp32 bring it too."""

FUSED_LOSS: Final = {"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "native"}
"""Flags of the fused loss, with its value."""

DROPOUT: Final = 0.1
"""Dropout of residuals and attention in GPT recipes. [-]"""


def as_set(work: Workload, changes: Changes) -> Workload:
    """Return the workload with the dtype of gradients that a trait asks for: one buffer has them."""
    asked = {changes[name] for name in ("gradient_dtype", "reduce_dtype") if name in changes}
    if not asked:
        return work
    return work.model_copy(update={"gradient_dtype": asked.pop()})


def set_flags(flags: Sequence[str], plan: Plan, job: Job, changes: Changes, version: str) -> tuple[str, ...]:
    """Return the arguments with those that the changed traits add, replace and leave out."""
    dropped = {"--overlap-grad-reduce", "--overlap-param-gather"} if "dp_exposed" in changes else set()
    dropped |= FUSED_LOSS if changes.get("loss") == "vocab-parallel" else set()
    kept = [flag for flag in flags if flag not in dropped]
    if changes.get("graphed") == "passes":
        kept.append("--no-check-for-nan-in-loss-and-grad")
    values = {"--attention-backend": BACKENDS.get(str(changes.get("attention")), "auto")}
    if "dropout" in changes:
        values |= dict.fromkeys(("--attention-dropout", "--hidden-dropout"), str(DROPOUT))
    if "dispatcher" in changes and DISPATCHER in kept:
        values |= {DISPATCHER: "flex"}
        kept += ["--moe-flex-dispatcher-backend", fused_backend(job, changes.get("graphed"))]
    for flag, value in values.items():
        kept[kept.index(flag) + 1] = value
    gated = architecture(job.model).gated
    off = {
        "fused_activation": f"--no-bias-{'swiglu' if gated else 'gelu'}-fusion",
        "fused_rope": "--no-rope-fusion",
        "fused_weight_gradient": "--no-gradient-accumulation-fusion",
    }
    more = [flag for name, flag in off.items() if changes.get(name) is False and flag not in kept]
    switches = choice_flags(plan, job, changes, version)
    return (*kept, *more, *(flag for flag in switches if flag != PRECISION_AWARE or flag not in kept))
