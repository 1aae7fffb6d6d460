"""What a user of Megatron-core should know before starting."""

from __future__ import annotations

from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.offload import activation_layers
from planner.runtimes.numerics import unknown_numerics
from planner.runtimes.offered import trial_note

RESHARDS = (
    "Checkpoints: weights saved as torch_dist load under other degrees; the optimizer's state does where "
    "it was saved with --dist-ckpt-optim-fully-reshardable."
)
FSDP_RESHARDS = (
    "Checkpoints: fsdp_dtensor loads under another data-parallel size; from torch_dist it is converted by "
    "tools/checkpoint/checkpoint_inspector.py convert-torch-dist-to-fsdp-dtensor."
)


def notes(plan: Plan, job: Job) -> tuple[str, ...]:
    """Return what the plan does not decide, and what becomes of checkpoints when it changes."""
    model, work = job.model, job.workload
    said = [
        *unknown_numerics(model),
        "Learning rate and schedule are those of Llama 2 and 3 for a model of this size; set LEARNING_RATE, "
        "WARMUP_STEPS and DECAY_STEPS for another.",
        "The assumed Transformer Engine is 2.9 or newer.",
        FSDP_RESHARDS if plan.zero >= 2 else RESHARDS,
    ]
    if activation_layers(plan.offload):
        said.append("With a Transformer Engine before 2.10, one layer more of activations is on the device.")
    return (*said, *trial_note(work))
