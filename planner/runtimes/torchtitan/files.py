"""What starts a plan on torchtitan, by version."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import replace
from planner.errors import UnsupportedPlan
from planner.inputs.numerics import Router
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Command, Job
from planner.runtimes.numerics import unknown_numerics
from planner.runtimes.offered import trial_note
from planner.runtimes.settings import NO_CHANGES, Changes, Settings
from planner.runtimes.torchtitan import vision
from planner.runtimes.torchtitan.choice import DEFAULT_CHUNKS, TitanChoice
from planner.runtimes.torchtitan.current import current_command
from planner.runtimes.torchtitan.delta import NOTE, UNSEEN, is_delta
from planner.runtimes.torchtitan.releases import is_old
from planner.runtimes.torchtitan.rules import choice_rules
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED, compilable
from planner.runtimes.torchtitan.toml import toml_command

SETTINGS: Final[Settings] = {
    "compiled": (False,),
    "float8_scales": ("tensor",),
    "loss_chunks": (1.0, 2.0, 4.0, 16.0),
    "tp_exposed": (ASYNC_EXPOSED,),
}
"""Values of traits that the command line and the TOML can say."""


def torchtitan_command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return the command line and files of a scalar plan for one of the versions.

    Raises
    ------
    UnsupportedPlan
        If the release cannot do what was chosen.
    """
    compiled = bool(changes.get("compiled", True)) and compilable(plan) and not is_delta(job.model)
    old = is_old(version)
    scales = "tensor" if "float8_scales" in changes else "rows"
    chunks = int(changes.get("loss_chunks", 1.0 if old else DEFAULT_CHUNKS))
    overlaps = "tp_exposed" in changes and bool(plan.tp > 1) and bool(job.hardware.pool.joins(plan.tp))
    choice = TitanChoice(compiled, overlaps, scales, chunks)
    for broken in violations(choice_rules(plan, job, choice, version)):
        raise UnsupportedPlan(f"{broken.found}; expected {broken.expected}; nearest: {broken.nearest}")
    command = toml_command(plan, job, version, choice) if old else current_command(plan, job, choice)
    return replace(command, notes=_notes(plan, job, bool(changes.get("compiled", True))))


def _balance(job: Job) -> tuple[str, ...]:
    """Return for the run card that experts are balanced by biases, where the model has none."""
    router = job.model.numerics.router or Router()
    if not job.model.expert_kinds or (router.expert_bias and not router.aux_loss):
        return ()
    if not router.aux_loss:
        return (
            "torchtitan balances experts by a bias on each (load_balance_coeff), whatever the model has.",
        )
    kind = " over each sequence" if router.per_sequence else ""
    return (
        f"torchtitan has no balancing loss: the model's, of {router.aux_loss:g}{kind}, is replaced by a bias "
        "on each expert (load_balance_coeff).",
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
    if is_delta(job.model):
        said += [NOTE, vision.NOTE if vision.sees(job.model) else UNSEEN]
    elif wanted and not compilable(plan):
        said.append(
            f"The schedule {plan.schedule} splits backward, which compiled layers cannot: compile is off, "
            "and the price has fused elementwise kernels all the same."
        )
    return tuple(said)
