"""From a plan to the files of its folder: what starts it, what it is, and how to check it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.calibrate.releases import find_release, plain_traits, release_of
from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.cost.step.layout import with_split
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem, UnsupportedPlan, nearest
from planner.inputs.workload import Workload
from planner.launchers._islands import NEEDS, is_over_islands, island_notes, island_variables, refuse_launcher
from planner.launchers._saving import with_saving
from planner.launchers._shell import job_name
from planner.launchers.card import CARD, MEASURED, PLAN, Card, card_text, measured_row
from planner.launchers.family import Launcher, LauncherSettings
from planner.plan import Plan
from planner.rules import refusal, violations
from planner.runtimes import runtimes
from planner.runtimes.family import Command, Job, Runtime
from planner.runtimes.rocm import on_vendor
from planner.runtimes.saving import Saving
from planner.runtimes.settings import Changes, assumed, changed, heard, unheard


@dataclass(frozen=True)
class Target:
    """What the files are for: a runtime in one of its versions, and a launcher."""

    runtime: Runtime
    launcher: Launcher
    version: str

    @property
    def title(self) -> str:
        """Runtime and version, and where its format was read."""
        return f"{self.runtime.title} {self.version}, as read in {self.runtime.cite}"


def target(runtime: Runtime, launcher: Launcher, version: str | None = None) -> Target:
    """Return the target, in the newest version where none is named.

    Raises `InputError` if the version is not one whose files can be written; the message lists those.
    """
    if version is None:
        return Target(runtime, launcher, release_of(runtime).files or runtime.versions[0])
    if version not in runtime.versions and runtime.release:
        release = find_release(runtime.name, version, "--target-version")
        version = release.files or runtime.versions[0]
    if version not in runtime.versions:
        expected = f"one of {', '.join(runtime.versions)} for {runtime.name}"
        found = nearest(version, runtime.versions) or runtime.versions[0]
        raise InputError(Problem("--target-version", repr(version), expected, found))
    return Target(runtime, launcher, version)


def launch_files(
    plan: Plan,
    job: Job,
    wanted: Target,
    card: Card,
    order: str | None = None,
    smoke: bool = False,
    saving: Saving | None = None,
    weights: str = "",
) -> dict[str, str]:
    """Return the files that start a scalar plan, name to text.

    ``card``: texts for the run card; ``order``: the order of the passes, where one was made for the plan;
    ``smoke``: whether they start a smoke run where the user does not say otherwise; ``saving``: how often it
    saves, where that was chosen; ``weights``: the folder of the model's weights on this machine, if any:
    CHECKPOINT where nobody says another.

    Raises `UnsupportedPlan` if the runtime writes no files, cannot run the plan, or has no smoke run where
    one is asked for; the message has every reason; `InputError` if the launcher cannot start so many
    accelerators.
    """
    runtime = wanted.runtime
    refuse_launcher(wanted.launcher.name, job)
    plan, command = priced_command(plan, job, wanted, order)
    command = _with_weights(with_saving(command, runtime, saving), wanted.launcher, weights)
    if smoke and command.smoke is None:
        raise UnsupportedPlan(f"{runtime.name} has no smoke run: {command.no_smoke}")
    title = f"{job_name(job.model.name)} on {job.gpus} GPUs, {plan.slug}\n{wanted.title}"
    settings = LauncherSettings(runtime.title, title, job_name(f"{job.model.name}-{plan.slug}"), smoke=smoke)
    files = dict(wanted.launcher.files(command, job, settings))
    files[CARD] = card_text(plan, job, runtime, wanted.launcher, command, card)
    files[MEASURED] = measured_row(plan, job, runtime)
    return files | ({PLAN: card.plan_file} if card.plan_file else {})


def _with_weights(command: Command, launcher: Launcher, weights: str) -> Command:
    """Return a command that starts from a folder where it needs weights and its launcher sees the folder."""
    needed = (*command.needs, *command.production_needs)
    if not weights or launcher.remote or "CHECKPOINT" not in needed:
        return command
    left, real = (
        tuple(name for name in names if name != "CHECKPOINT")
        for names in (command.needs, command.production_needs)
    )
    defaults = {"CHECKPOINT": weights, **command.defaults}
    return replace(command, needs=left, production_needs=real, defaults=defaults)


def priced_command(plan: Plan, job: Job, wanted: Target, order: str | None = None) -> tuple[Plan, Command]:
    """Return a scalar plan with the split that its price assumed, and what starts it.

    Raises `UnsupportedPlan` if the runtime writes no files or cannot run the plan; the message has every
    reason.
    """
    _refuse(plan, job, wanted.runtime)
    plan = _as_priced(plan, job, wanted.runtime)
    return plan, started(plan, job, wanted, order)


def started(plan: Plan, job: Job, wanted: Target, order: str | None = None) -> Command:
    """Return what starts a legal plan, with the traits that its price was made with.

    Raises `UnsupportedPlan` if the runtime writes no files, or they cannot say a trait that was priced.
    """
    runtime = wanted.runtime
    plain = runtimes()[runtime.name].traits
    changes = changed(runtime.traits, plain)
    own = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision).flat()
    asked = {name: value for name, value in changes.items() if value != own[name]}
    theirs = runtimes()[runtime.name].for_model(job.model).traits.flat()
    chosen = {name: value for name, value in asked.items() if value != theirs[name]}
    reasons = unheard(chosen, runtime.settings, plain)
    if reasons:
        lines = (f"{runtime.name} would not run as it was priced: {reason}" for reason in reasons)
        raise UnsupportedPlan("\n".join(lines))
    brought = {name: value for name, value in changes.items() if name not in asked}
    said = _sayable(heard(brought, runtime.settings), plan, job, wanted)
    command = _command(plan, job, wanted, order, {**heard(asked, runtime.settings), **said})
    told = (
        *release_notes(runtime, [name for name in brought if name not in said], wanted.version),
        *assumed(chosen, runtime.settings),
        *packed_note(job.workload),
    )
    variables = on_vendor(command.environment, job.hardware.pool.accelerator)
    return replace(
        command,
        environment={**variables, **island_variables(job)},
        needs=(*command.needs, *(NEEDS if is_over_islands(job) else ())),
        notes=(*command.notes, *told, *island_notes(job)),
    )


def _command(plan: Plan, job: Job, wanted: Target, order: str | None, changes: dict[str, Any]) -> Command:
    runtime = wanted.runtime
    if runtime.command is None:
        raise UnsupportedPlan(f"no files are written for the runtime {runtime.name}")
    if order is None:
        return runtime.command(plan, job, wanted.version, changes)
    if runtime.order_command is None:
        raise UnsupportedPlan(f"{runtime.name} takes no order of passes that was made for a plan")
    return runtime.order_command(plan, job, wanted.version, order, changes)


def _sayable(brought: Changes, plan: Plan, job: Job, wanted: Target) -> dict[str, Any]:
    """Return the traits of a release that files can say: all, or each beside those before it."""
    if _is_sayable(plan, job, wanted, dict(brought)):
        return dict(brought)
    said: dict[str, Any] = {}
    for name, value in brought.items():
        if _is_sayable(plan, job, wanted, said | {name: value}):
            said[name] = value
    return said


def _is_sayable(plan: Plan, job: Job, wanted: Target, changes: dict[str, Any]) -> bool:
    """Whether files for a plan can say changed traits."""
    try:
        _command(plan, job, wanted, None, changes)
    except UnsupportedPlan:
        return False
    return True


def release_notes(runtime: Runtime, silent: Sequence[str], version: str) -> tuple[str, ...]:
    """Return that a release has traits which these files do not say, or that they are for another version."""
    if not runtime.release:
        return ()
    release = release_of(runtime)
    other = "" if release.files == version else f"; these files are for {runtime.title} {version}"
    if not silent and not other:
        return ()
    said = f", with {', '.join(silent)} as then, which these files do not set" if silent else ""
    return (f"The price is that of {runtime.title} {release.name} ({release.date}){said}{other}.",)


def packed_note(work: Workload) -> tuple[str, ...]:
    """Return what is priced of packed documents that no file asks for."""
    if work.seq_lens is not None:
        return (
            f"The price is of unequal lengths ({work.seq_lens}) packed to {work.seq_len} tokens, attention "
            "within documents and loss by tokens; these files ask for neither: pack the data so.",
        )
    if work.document_tokens is None:
        return ()
    return (
        f"The price keeps attention to documents of {work.document_tokens} tokens; these files attend to "
        "whole sequences: pack with document boundaries, or the step takes longer.",
    )


def _refuse(plan: Plan, job: Job, runtime: Runtime) -> None:
    if job.model.encoder is not None and not job.model.crosses and not runtime.builds_encoder(job.model):
        building = [f"--runtime {name}" for name, one in runtimes().items() if one.builds_encoder(job.model)]
        alone = "the model of `planner models import --text-only`, or a YAML without `encoder`"
        raise UnsupportedPlan(
            f"no files start {job.model.name}: those of {runtime.name} train language models, without the "
            f"encoder that was priced; nearest: {' or '.join([*building, alone])}"
        )
    if any(block.extras for block in job.model.blocks.values()):
        raise UnsupportedPlan(
            f"no files start {job.model.name}: it has operators of its own (extras), which no model has that "
            f"{runtime.name} is written for; the plan is a price alone"
        )
    if job.model.diffusion is not None and runtime.diffusion_command is None:
        raise UnsupportedPlan(
            f"no files start {job.model.name}: those of {runtime.name} train language models; the plan is a "
            "price alone"
        )
    unwritten = runtime.unwritten(job.model)
    if unwritten:
        raise UnsupportedPlan(
            f"no files start {job.model.name} on {runtime.name}: {'; '.join(unwritten)}; the plan is a price "
            "alone"
        )
    faults = violations(all_rules(plan, case_of(plan, job, runtime)))
    if faults:
        raise UnsupportedPlan(refusal(runtime.name, faults))


def _as_priced(plan: Plan, job: Job, runtime: Runtime) -> Plan:
    """Return the plan with the split that its price assumed, where it names none."""
    if plan.pp * plan.vpp == 1 or plan.stage_layers is not None:
        return plan
    split = with_split(plan, case_of(plan, job, runtime))
    _refuse(split, job, runtime)
    return split
