"""Frozen components in the idle time of a plan: those that the user times, or its own frozen encoder."""

from __future__ import annotations

from planner.cost.case import case_of
from planner.cost.stages import ENCODER
from planner.cost.step.parts import PlanParts
from planner.dataclasses import replace
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.simulate.fill import Component, FilledStep, fill
from planner.simulate.plan import PlayedPlan


def fills(job: Job) -> bool:
    """Whether a job's encoder, projectors included, learns nothing, so that it may run ahead."""
    work = job.workload
    return job.model.encoder is not None and work.freeze_encoder and not work.projects


def without_encoder(plan: Plan, job: Job, runtime: Runtime) -> tuple[Job, Runtime]:
    """Return a job whose pipeline runs the language model alone, by the traits it has beside images."""
    work = job.workload.model_copy(update={"images": 1, "freeze_encoder": False, "train_projector": False})
    alone = replace(job, model=job.model.model_copy(update={"encoder": None}), workload=work)
    return alone, runtime.as_run(plan, job)


def encoder_component(plan: Plan, job: Job, runtime: Runtime) -> Component:
    """Return the frozen encoder's layers as equally long, for all micro-batches of a replica on one rank. [s]

    Its stem and projectors are counted with the layers, and what the price has of messages and host beside.
    """
    encoder = job.model.encoder
    if encoder is None:
        return ()
    costs = PlanParts(plan, case_of(plan, job, runtime)).costs
    seconds = float(costs[ENCODER, False].seconds) * float(plan.num_microbatches)
    return (seconds / len(encoder.layers),) * len(encoder.layers)


def filled_plan(played: PlayedPlan, components: tuple[Component, ...], parts: int) -> FilledStep:
    """Run frozen components in the idle time of a played plan; what follows its passes comes after them.

    They run one step ahead of what learns, so that all are ready when a step begins.
    """
    found = fill(played.timeline, components, parts)
    after = played.record.makespan - found.makespan
    names = ("makespan", "step", "unfilled_step", "least_step")
    return replace(found, **{name: getattr(found, name) + after for name in names})
