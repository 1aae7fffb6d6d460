"""The rules of what rests off the device: the way there is known, and memory and disks of a node hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from planner.cost.case import Case
from planner.cost.memory.activation_offload import LayerPasses, host_activation_bytes
from planner.cost.memory.host_checkpoints import host_checkpoint_bytes, hosts_checkpoints
from planner.cost.memory.pinned import pinned_share
from planner.dataclasses import dataclass
from planner.numeric import Num, maximum, where
from planner.plan import Plan
from planner.rules import Rule
from planner.techniques.engines.family import GATHERED_BYTES, HOST_SHARE
from planner.techniques.offload.family import buffered_bytes, host_state_bytes
from planner.units import show

HAS_LINK = "offload-has-link"
"""Name of the rule that there is a way to the host."""


def offload_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules that the way to the host is known, and that its memory holds what goes there."""
    link = Rule(
        HAS_LINK,
        not (case.offload.optimizer or case.offload.fetches or case.offload.layers or case.schedule.hosts)
        or math.isfinite(case.host_link),
        lambda: (
            f"schedule {plan.schedule}" if case.schedule.hosts else f"offload {plan.offload}",
            "a host link whose rate is known",
            "none",
        ),
    )
    return [
        link,
        *_fetching_rules(plan, case),
        *_room_rules("host-holds-states", case, host_states(plan, case), "none"),
        *_room_rules("disk-holds-states", case, disk_states(plan, case), "optimizer", DISK),
        *_engine_rules(case),
    ]


def _engine_rules(case: Case) -> list[Rule]:
    """Return the rule that a runtime here keeps weights and states as the engine does."""
    if case.engine.runs:
        return []
    return [
        Rule(
            "engine-has-a-runner",
            False,
            lambda: (
                f"engine {case.engine.name}",
                "an engine that a runtime here has: its authors' own program alone runs this one",
                "--set engine=deepspeed-zero",
            ),
        )
    ]


def _fetching_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules that weights off the device are sharded ones, and that a disk in use is known."""
    node = case.pool.node
    known = None not in (node.nvme, node.nvme_read, node.nvme_write)
    return [
        Rule(
            "weights-off-the-device-are-sharded",
            not case.offload.fetches or case.sharding.shards_parameters,
            lambda: (f"offload {plan.offload} with zero {plan.zero}", "zero 3", "zero 3"),
        ),
        Rule(
            "disk-is-known",
            not case.offload.disk or known,
            lambda: (
                f"offload {plan.offload} on {case.job.hardware.name}",
                "a profile that states size and rates of the node's disks (nvme, nvme_read, nvme_write)",
                "weights" if case.offload.fetches else "optimizer",
            ),
        ),
    ]


def host_checkpoint_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules that a node holds the inputs of layers that are recomputed, with all else it keeps.

    They follow from a setting, and are asked apart from those of `offload_rules`.
    """
    if not hosts_checkpoints(case):
        return []
    link = Rule(
        "checkpoints-have-link",
        math.isfinite(case.host_link),
        lambda: ("inputs of layers on the host", "a host link whose rate is known", NO_CHECKPOINTS),
    )
    parts = host_states(plan, case) | {"layers' inputs": host_checkpoint_bytes(case, plan) * case.node_ranks}
    return [link, *_room_rules("host-holds-checkpoints", case, parts, NO_CHECKPOINTS)]


def plan_host_bytes(plan: Plan, case: Case) -> Num:
    """Bytes of a node's memory that a plan keeps from step to step, and at the peak of one. [byte]"""
    each = host_checkpoint_bytes(case, plan)
    if case.offload.layers:
        each = each + host_activation_bytes(case, plan)
    return sum(host_states(plan, case).values()) + each * case.node_ranks


def hosted_rules(plan: Plan, case: Case, each: float) -> list[Rule]:
    """Return the rule that a node holds what its ranks' schedule sends there, with all else it keeps.

    A played step says how much that is: ``each`` is the most of any rank. [byte]
    """
    sent = {"activations of the schedule": each * case.node_ranks}
    return _room_rules("host-holds-schedule", case, host_states(plan, case) | sent, "another schedule")


NO_CHECKPOINTS = "--set host_checkpoints=false"


def _node_bytes(plan: Plan, case: Case, each: Num) -> Num:
    """Bytes of a node's ranks together where each parameter of the model takes ``each``. [byte]"""
    copies = plan.dp * plan.cp / plan.zero_shards * case.schedule.weight_copies
    return host_state_bytes(each * case.model.params, copies, case.node_ranks, case.job.gpus)


def host_states(plan: Plan, case: Case) -> dict[str, Num]:
    """Return what a node's ranks keep in its memory from step to step, by what it is. [byte]

    Where something rests on disk, what passes through the host has pinned buffers there.
    """
    found = _wanted_on_host(plan, case)
    if not case.engine.pooled or case.pool.node.host_memory is None:
        return found
    room = case.engine.host_share * float(case.pool.node.host_memory)
    share = np.minimum(1.0, room / maximum(sum(found.values()), 1.0))
    return {name: share * nbytes for name, nbytes in found.items()}


def spilled_bytes(case: Case, plan: Plan) -> Num:
    """Bytes of weights and states that each rank keeps on its device, since its node's memory is full. [byte]

    References
    ----------
    .. [1] J. Fang et al., "PatrickStar," arXiv:2108.05818, 2021: chunks lie on either.
    """
    if not case.engine.pooled or case.offload.weights != "host":
        return 0.0
    wanted, held = sum(_wanted_on_host(plan, case).values()), sum(host_states(plan, case).values())
    return (wanted - held) / case.node_ranks / POOLED_SHARE


POOLED_SHARE = 0.8
"""Share of a device's memory that chunks may fill (github.com/Tencent/PatrickStar, its default). [-]"""


def _wanted_on_host(plan: Plan, case: Case) -> dict[str, Num]:
    if not (case.offload.optimizer or case.offload.fetches):
        return {}
    if not case.method.trains_base:  # what adapters keep there is little beside their base
        frozen = _node_bytes(plan, case, case.frozen_bytes * pinned_share(case, plan))
        return {"weights": frozen} if case.offload.weights == "host" else {}
    hosted, pinned = case.offload.hosted, pinned_share(case, plan)
    gradients = case.host_gradient_bytes * pinned
    resting = 0.0 if case.engine.replaces_weights else gradients * (1.0 if case.hosts_gradients else hosted)
    found: dict[str, Num] = {}
    if case.offload.states == "host":
        each = hosted * (case.optimizer_bytes + case.engine.host_copy_bytes)
        found["optimizer states"] = _node_bytes(plan, case, each + resting + _summed_bytes(plan, case))
    elif case.offload.states == "disk":
        found["gradients"] = _node_bytes(plan, case, gradients)
    if case.offload.weights == "host":
        found["weights"] = _node_bytes(plan, case, case.weight_bytes * pinned)
    buffers = buffered_bytes(case.offload) + _staged_bytes(plan, case)
    if np.any(buffers):
        found["pinned buffers"] = buffers * case.node_ranks
    return found


def _summed_bytes(plan: Plan, case: Case) -> Num:
    """Bytes of each parameter of a part that DeepSpeed's ZeRO-2 sums on the host beside its stepped weights.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``accumulated_grads_in_cpu`` and
       ``param_buffer_of_bit16_for_cpu_offload_groups``.
    """
    if not case.engine.lays_gradients or case.sharding.shards_parameters or not case.hosts_gradients:
        return 0.0
    return GATHERED_BYTES * where(plan.num_microbatches > 1, 1.0, 0.0)


def _staged_bytes(plan: Plan, case: Case) -> Num:
    """Bytes of a rank's pinned buffer of the largest gradient (``temp_grad_buffer_for_cpu_offload``)."""
    if not case.engine.lays_gradients or case.sharding.shards_parameters or case.offload.states != "host":
        return 0.0
    return GATHERED_BYTES * case.model.vocab * case.model.hidden / plan.tp


def disk_states(plan: Plan, case: Case) -> dict[str, Num]:
    """Return what a node's ranks keep on its disks from step to step, by what it is. [byte]"""
    found: dict[str, Num] = {}
    if case.offload.states == "disk":
        each = case.optimizer_bytes + case.engine.host_copy_bytes
        found["optimizer states"] = _node_bytes(plan, case, each)
    if case.offload.weights == "disk":
        found["weights"] = _node_bytes(plan, case, case.weight_bytes)
    return found


@dataclass(frozen=True)
class Store:
    """A memory of a node: its name, its field in a profile, and the share of it that states may take."""

    name: str
    field: str
    share: float


HOST = Store("memory", "host_memory", HOST_SHARE)
DISK = Store("disks", "nvme", 1.0)


def _room_rules(
    name: str, case: Case, parts: Mapping[str, Num], nearest: str, store: Store = HOST
) -> list[Rule]:
    """Return the rule that a node's store holds some parts, where the profile says how much it has."""
    size = getattr(case.pool.node, store.field)
    if size is None or not parts:
        return []
    needed: Num = sum(parts.values())
    share = case.engine.host_share if store is HOST else store.share
    room = share * float(size) * (1.0 + 1e-9)
    return [
        Rule(
            name,
            needed <= room,
            lambda: (
                f"{show(float(needed), 'byte')} of {', '.join(parts)} in a node's {store.name}",
                f"at most {show(room, 'byte')}, {share:.0%} of what it has",
                nearest,
            ),
        )
    ]


def host_activation_rules(plan: Plan, case: Case, layers: LayerPasses | None = None) -> list[Rule]:
    """Return the rule that a node's memory holds what the layers of its ranks keep there, if they do.

    A search that has priced the ``layers`` of its stages says so.
    """
    memory = case.pool.node.host_memory
    if memory is None or not case.offload.layers:
        return []
    ranks = min(case.pool.gpus_per_node, case.job.gpus)
    needed, room = host_activation_bytes(case, plan, layers) * ranks, HOST_SHARE * float(memory)
    return [
        Rule(
            "host-holds-activations",
            needed <= room,
            lambda: (
                f"{show(float(needed), 'byte')} of activations in a node's memory",
                f"at most {show(room, 'byte')}, {HOST_SHARE:.0%} of what it has",
                "activations of fewer layers",
            ),
        )
    ]
