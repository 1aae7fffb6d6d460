"""The runtimes that are taken where nobody names one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planner.fields import default
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.runtimes.family import Job

DEFAULT_RUNTIME: Final[str] = default("runtime")


def usual_runtimes(method: str, optimizer: str = "adamw") -> tuple[str, ...]:
    """Return who trains by a method and steps by an optimizer, the first for a single plan.

    The usual one alone if it does, or if nobody does.

    Examples
    --------
    >>> usual_runtimes("full"), usual_runtimes("lora"), usual_runtimes("qlora")
    (('megatron-lm',), ('megatron-bridge', 'deepspeed', 'fsdp'), ('fsdp',))
    >>> usual_runtimes("full", "muon"), usual_runtimes("full", "adam8bit")
    (('megatron-lm',), ('fsdp',))
    """
    able = able_runtimes(method, optimizer)
    if DEFAULT_RUNTIME in able:
        return (DEFAULT_RUNTIME,)
    return tuple(sorted(able, key=lambda name: (name != "megatron-bridge", name))) or (DEFAULT_RUNTIME,)


def able_runtimes(method: str, optimizer: str) -> list[str]:
    """Return the runtimes that train by a method and step by an optimizer."""
    known = runtimes().items()
    return [name for name, one in known if method in one.methods and optimizer in one.optimizers]


def runtimes_for(
    model: ModelSpec | None, workload: Workload | None, cluster: HardwareProfile | None
) -> tuple[str, ...]:
    """Return those of the usual runtimes that train a model, or else all that do, or else the usual ones.

    Where a model has an encoder, those whose files build it go before the usual ones.
    """
    asked = (workload.method, workload.optimizer) if workload is not None else ("full", "adamw")
    usual = usual_runtimes(*asked)
    if model is None or workload is None or cluster is None:
        return usual
    job = Job(model, cluster, 1, workload)
    others = able_runtimes(*asked)
    able = training(others, job) if model.encoder is not None and not model.crosses else ()
    building = tuple(name for name in able if runtimes()[name].builds_encoder(model))
    return building or training(usual, job) or training(others, job) or usual


def training(names: Iterable[str], job: Job) -> tuple[str, ...]:
    """Return those of some runtimes that train a job's model in some layout."""
    return tuple(name for name in names if not runtimes()[name].cannot_train(job))
