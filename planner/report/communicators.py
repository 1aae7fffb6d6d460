"""Communicators counted one by one: the process groups that a plan makes on a rank, and what NCCL takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.report.as_json import Document
from planner.units import GIB, MIB

PAIR_BYTES = 544.0 * MIB
GROUP_BYTES = 688.0 * MIB
"""Memory of a communicator of two and of more ranks: https://github.com/NVIDIA/nccl/issues/964. [byte]"""

SOURCE = "4 A100, https://github.com/NVIDIA/nccl/issues/964"
MEGATRON = ("megatron-lm", "megatron-bridge")


@dataclass(frozen=True)
class ProcessGroup:
    """One process group of a rank.

    Parameters
    ----------
    name : str
        The axes that it joins.
    ranks : int
        Its ranks. [-]
    speaks : bool
        Whether a training step sends anything in it, so that its communicator is made.
    """

    name: str
    ranks: int
    speaks: bool

    @property
    def nbytes(self) -> float:
        """Device memory of its communicator. [byte]"""
        if self.ranks < 2 or not self.speaks:
            return 0.0
        return PAIR_BYTES if self.ranks == 2 else GROUP_BYTES


def process_groups(answer: Estimate) -> tuple[ProcessGroup, ...]:
    """Return the groups of more than one rank on a rank of the first stage.

    Those of Megatron Core are all that its ``initialize_model_parallel`` makes for NCCL with one instance of
    the distributed optimizer; other runtimes have one for each axis.

    References
    ----------
    https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64dd/megatron/core/parallel_state.py
    """
    found = megatron_groups(answer) if answer.runtime.name in MEGATRON else mesh_groups(answer)
    return tuple(group for group in found if group.ranks > 1)


def megatron_groups(answer: Estimate) -> Iterator[ProcessGroup]:
    """Yield Megatron Core's groups, and pairs of ranks that overlapped pipeline messages make beside them."""
    plan, gpus, model = answer.plan, answer.job.gpus, answer.job.model
    tp, cp, pp, dp, ep = (int(degree) for degree in (plan.tp, plan.cp, plan.pp, plan.dp, plan.ep))
    experts, sharded = _routes(answer), bool(plan.zero > 0)
    etp = int(plan.etp) if experts else tp
    yield ProcessGroup("world", gpus, True)
    yield ProcessGroup("dp-cp", dp * cp, True)
    yield ProcessGroup("dp", dp, False)
    yield ProcessGroup("cp", cp, True)
    yield ProcessGroup("tp-pp", tp * pp, not sharded)
    yield ProcessGroup("tp", tp, True)
    yield ProcessGroup("pp", pp, bool(plan.vpp <= 1))
    yield ProcessGroup("embedding", min(pp, 2), model.tied_embeddings)
    yield ProcessGroup("tp-dp-cp", tp * dp * cp, False)
    yield ProcessGroup("tp-dp", tp * dp, False)
    yield ProcessGroup("tp-cp", tp * cp, experts)
    yield ProcessGroup("ep", ep, experts)
    yield ProcessGroup("etp", etp, experts)
    yield ProcessGroup("etp-ep", etp * ep, experts)
    yield ProcessGroup("etp-ep-pp", etp * ep * pp, experts and not sharded)
    yield ProcessGroup("expert dp", gpus // (etp * ep * pp), experts)
    yield ProcessGroup("optimizer instance", gpus, sharded)
    if pp > 1 and plan.vpp > 1:
        yield from (ProcessGroup(f"pair with the {side} stage", 2, True) for side in ("next", "previous"))


def _routes(answer: Estimate) -> bool:
    return case_of(answer.plan, answer.job, answer.runtime).has_experts


def mesh_groups(answer: Estimate) -> Iterator[ProcessGroup]:
    """Yield the world and one group for each axis of the mesh."""
    plan = answer.plan
    axes = {"dp-cp": plan.dp * plan.cp, "cp": plan.cp, "tp": plan.tp, "pp": plan.pp, "ep": plan.ep}
    yield ProcessGroup("world", answer.job.gpus, True)
    yield from (ProcessGroup(name, int(ranks), True) for name, ranks in axes.items())
    if _routes(answer) and plan.ep * plan.etp > 1:
        yield ProcessGroup("etp", int(plan.etp), True)
        yield ProcessGroup("expert dp", int(answer.job.gpus / (plan.ep * plan.etp * plan.pp)), True)


def communicators_line(answer: Estimate) -> str:
    """Return how many groups there are, which speak, and what their communicators take, in words."""
    groups = process_groups(answer)
    if not groups:
        return "One accelerator: no communicators."
    speaking = [group for group in groups if group.speaks]
    named = ", ".join(f"{group.name} {group.ranks:,}" for group in speaking)
    total = sum(group.nbytes for group in groups)
    frame = max(stage.framework for stage in answer.stages)
    whose = "Megatron Core's list" if answer.runtime.name in MEGATRON else "one for each axis"
    return (
        f"Process groups of more than one rank on a rank: {len(groups)} ({whose}), of which {len(speaking)} "
        f"speak in a step, and so have a communicator: {named}. NCCL was seen to take "
        f"{PAIR_BYTES / MIB:.0f} MiB for one of two ranks and {GROUP_BYTES / MIB:.0f} for one of more "
        f"({SOURCE}), {total / GIB:.1f} GiB by that; the frame reckons with {frame / GIB:.1f} GiB for "
        "context and all communicators."
    )


def communicators_record(answer: Estimate) -> Document:
    """Return the groups as JSON."""
    groups = process_groups(answer)
    return {
        "groups": [
            {"name": group.name, "ranks": group.ranks, "speaks": group.speaks, "gib": group.nbytes / GIB}
            for group in groups
        ],
        "gib": sum(group.nbytes for group in groups) / GIB,
        "source": SOURCE,
    }
