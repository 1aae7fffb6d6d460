"""Communicators counted one by one: the process groups that a plan makes on a rank, and what NCCL takes."""

from __future__ import annotations

from planner.cost.estimate import Estimate
from planner.report.as_json import Document
from planner.runtimes.groups import ProcessGroup
from planner.units import GIB, MIB

PAIR_BYTES = 544.0 * MIB
GROUP_BYTES = 688.0 * MIB
"""Memory of a communicator of two and of more ranks: https://github.com/NVIDIA/nccl/issues/964. [byte]"""

SOURCE = "4 A100, https://github.com/NVIDIA/nccl/issues/964"


def communicator_bytes(group: ProcessGroup) -> float:
    """Device memory of the communicator of a group; a group in which nothing is sent has none. [byte]"""
    if group.ranks < 2 or not group.speaks:
        return 0.0
    return PAIR_BYTES if group.ranks == 2 else GROUP_BYTES


def process_groups(answer: Estimate) -> tuple[ProcessGroup, ...]:
    """Return the groups of more than one rank on a rank of the first stage."""
    found = answer.runtime.grouping.groups(answer.plan, answer.job.model, answer.job.gpus)
    return tuple(group for group in found if group.ranks > 1)


def communicators_line(answer: Estimate) -> str:
    """Return how many groups there are, which speak, and what their communicators take, in words."""
    groups = process_groups(answer)
    if not groups:
        return "One accelerator: no communicators."
    speaking = [group for group in groups if group.speaks]
    named = ", ".join(f"{group.name} {group.ranks:,}" for group in speaking)
    total = sum(communicator_bytes(group) for group in groups)
    frame = max(stage.framework for stage in answer.stages)
    return (
        f"Process groups of a rank, itself aside: {len(groups)} ({answer.runtime.grouping.whose}); "
        f"{len(speaking)} communicate in a step and so hold a communicator: {named}. "
        f"NCCL was measured to take {PAIR_BYTES / MIB:.0f} MiB for one of two ranks and "
        f"{GROUP_BYTES / MIB:.0f} for a larger one ({SOURCE}), which makes {total / GIB:.1f} GiB; "
        f"the frame allows {frame / GIB:.1f} GiB for the context and all communicators."
    )


def communicators_record(answer: Estimate) -> Document:
    """Return the groups as JSON."""
    sizes = {group: communicator_bytes(group) for group in process_groups(answer)}
    return {
        "groups": [
            {"name": group.name, "ranks": group.ranks, "speaks": group.speaks, "gib": nbytes / GIB}
            for group, nbytes in sizes.items()
        ],
        "gib": sum(sizes.values()) / GIB,
        "source": SOURCE,
    }
