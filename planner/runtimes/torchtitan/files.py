"""What starts a plan on torchtitan, by version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.runtimes._family import Command, Job
from planner.runtimes._numerics import unknown_numerics
from planner.runtimes._offered import trial_note
from planner.runtimes._settings import NO_CHANGES, Changes, Settings
from planner.runtimes.torchtitan.choice import Choice
from planner.runtimes.torchtitan.current import current_command
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED, compilable
from planner.runtimes.torchtitan.toml import toml_command

SETTINGS: Final[Settings] = {
    "compiled": (False,),
    "float8_scales": ("tensor",),
    "loss_chunks": (2.0, 4.0, 8.0, 16.0),
    "tp_exposed": (ASYNC_EXPOSED,),
}
"""Values of traits that the command line and the TOML can say."""


def torchtitan_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return the command line and files of a scalar plan for one of the versions."""
    compiled = bool(changes.get("compiled", True)) and compilable(plan)
    old = version.startswith("0.2.")
    scales = "tensor" if "float8_scales" in changes else "rows"
    choice = Choice(compiled, "tp_exposed" in changes, scales, int(changes.get("loss_chunks", 1)))
    for reason in _refusals(plan, job, choice, old):
        raise UnsupportedPlan(reason)
    command = toml_command(plan, job, version, choice) if old else current_command(plan, job, choice)
    return replace(command, notes=_notes(plan, job, bool(changes.get("compiled", True))))


def _refusals(plan: Plan, job: Job, choice: Choice, old: bool) -> Iterator[str]:
    """Yield what the release cannot do of what was chosen."""
    if choice.async_tp and not (choice.compiled and plan.tp > 1 and plan.sequence_parallel):
        yield (
            "async tensor parallelism without compiled layers, tp above 1 and sequence parallelism; nearest: "
            "--set tp_exposed=1"
        )
    if choice.loss_chunks > 1 and old:
        yield "a loss in parts; nearest: --set loss_chunks=1, or the newest release"
    if job.workload.seq_len * plan.micro_batch / plan.cp % choice.loss_chunks:
        yield f"{choice.loss_chunks} unequal parts of a micro-batch's tokens; nearest: --set loss_chunks=1"
    if choice.float8_scales == "tensor" and not old and job.workload.precision == "fp8":
        yield "float8 with a scale for a tensor; nearest: --set float8_scales=rows, or --target-version 0.2.2"


def _balance(job: Job) -> tuple[str, ...]:
    """Return for the run card that experts are balanced by biases, where the model has a balancing loss."""
    router = job.model.numerics.router
    if router is None or not router.aux_loss:
        return ()
    return (
        f"torchtitan has no balancing loss: the model's, of {router.aux_loss:g}, is replaced by a bias on "
        "each expert (load_balance_coeff).",
    )


def _notes(plan: Plan, job: Job, wanted: bool) -> tuple[str, ...]:
    said = [
        *unknown_numerics(job.model),
        *_balance(job),
        "Start it again with the same OUTPUT_DIR and it goes on from the last checkpoint. torchtitan saves "
        "at intervals alone, not when it is told to stop: steps after the last one are trained again.",
        "Checkpoints: distributed, so that they load under any other degrees; "
        "scripts/checkpoint_conversion/convert_to_hf.py makes Hugging Face weights of it.",
        *trial_note(job.workload),
    ]
    if wanted and not compilable(plan):
        said.append(
            f"The schedule {plan.schedule} splits backward, which compiled layers cannot: compile is off, "
            "and the price has fused elementwise kernels all the same."
        )
    return tuple(said)
