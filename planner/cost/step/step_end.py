"""What the end of a step takes for the weights of each stage, whatever its passes take."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic.data_parallel import DataTraffic, exposed_traffic_seconds, traffic_of
from planner.cost.traffic.host_copies import LinkBytes, link_bytes
from planner.cost.traffic.sharing import Sharing
from planner.cost.traffic.whole_matrices import whole_matrix_seconds
from planner.dataclasses import dataclass, fields
from planner.numeric import Num, maximum
from planner.plan import Plan
from planner.techniques.offload.family import disk_step_seconds, host_optimizer_seconds, offload_seconds
from planner.techniques.optimizers.family import step_traffic

ENDLESS = 1e30
"""A window that hides all that can be hidden. [s]"""


@dataclass(frozen=True)
class StepEnd:
    """Traffic and optimizer of every stage, and of the mean one; neither micro-batches nor passes matter."""

    traffic: DataTraffic
    least_traffic: DataTraffic
    """What data parallelism sends, for each stage and for the mean one."""
    optimizer: Num
    offload: Num
    """Seconds of the optimizer on the device, and of an offloaded one, for each stage. [s]"""
    least: Num
    """Seconds of both for the mean stage. [s]"""
    links: tuple[LinkBytes, ...] = ()
    """What is sent beside copies of activations to the host, where there are any."""

    def taken(self, index: NDArray[np.intp]) -> StepEnd:
        """Return the plans at ``index`` of the last axis."""
        optimizer, offload, least = (
            _column(part, index) for part in (self.optimizer, self.offload, self.least)
        )
        traffic, least_traffic = _taken(self.traffic, index), _taken(self.least_traffic, index)
        links = tuple(_taken(one, index) for one in self.links)
        return StepEnd(traffic, least_traffic, optimizer, offload, least, links)


Traffic = TypeVar("Traffic", DataTraffic, LinkBytes)


def _taken(traffic: Traffic, index: NDArray[np.intp]) -> Traffic:
    return type(traffic)(*(_column(getattr(traffic, field.name), index) for field in fields(traffic)))


def _column(values: Num, index: NDArray[np.intp]) -> Num:
    """Return the values at ``index`` of the last axis, or the one value that all share."""
    array = np.asarray(values)
    column: Num = array if array.ndim == 0 else array.take(index, axis=-1)
    return column


def taken_weights(weights: StageWeights, index: NDArray[np.intp]) -> StageWeights:
    """Return the weights of the plans at ``index`` of the last axis."""
    return weights.mapped(lambda values: _column(values, index))


def step_end(case: Case, held: Sharing, mean: Sharing | None) -> StepEnd:
    """Return what the end of a step takes.

    ``case``: the techniques; those of a micro-batch do not matter; ``held`` and ``mean``: who shares the
    weights of each stage, and of the mean one; without it, where nobody asks for bounds, those of each stage
    stand in its place.
    """
    optimizer, offload = optimizer_seconds(case, held.stepped, held.node_ranks)
    mean, bounded = mean or held, mean is not None
    alone = held is mean
    least = sum((optimizer, offload) if alone else optimizer_seconds(case, mean.stepped, mean.node_ranks))
    if held.matrices:
        optimizer = optimizer + whole_matrix_seconds(case, held.matrices)
        least = least + whole_matrix_seconds(case, mean.matrices, divisible=True)
    links = link_bytes(case, held.groups) if case.offload.layers else ()
    traffic = traffic_of(case, held.padded)
    same = not bounded or (alone and held.padded is held.groups)
    least_traffic = traffic if same else traffic_of(case, mean.groups)
    return StepEnd(traffic, least_traffic, optimizer, offload, least, links)


def least_seconds(case: Case, plan: Plan, end: StepEnd) -> Num:
    """Seconds that the end of a step takes at least, however the layers are assigned.

    Some stage holds at least the mean, and pays at least the share of its traffic that nothing hides.
    """
    return exposed_traffic_seconds(case, plan, end.least_traffic, ENDLESS) + end.least


def disk_seconds(case: Case, shard: Num, ranks: Num) -> Num:
    """Seconds in which a node's disks give and take what the host steps, beside its work. [s]

    States with the fp32 gradients that they take go both ways, weights that rest there are written.
    """
    node, seconds = case.pool.node, 0.0 * shard
    if not case.offload.disk or node.nvme_read is None or node.nvme_write is None:
        return seconds
    if case.offload.states == "disk":
        nbytes = case.optimizer_bytes + case.engine.host_copy_bytes
        seconds = disk_step_seconds(shard, nbytes, ranks, float(node.nvme_read), float(node.nvme_write))
    if case.offload.weights == "disk":
        seconds = seconds + shard * case.weight_bytes * ranks / float(node.nvme_write)
    return seconds


def optimizer_seconds(case: Case, shard: Num, ranks: Num) -> tuple[Num, Num]:
    """Seconds in which each of a node's ranks steps its shard on the device, and those of offloading. [s]

    Where the host steps a share, both step at once, and the device's counts as what it takes longer. Where
    gradients wait on the host all of them go there.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage3.py``, ``_optimizer_step`` and
       ``grad_partitions_flat_buffer``; Megatron-LM d98e8a64,
       ``megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py``, ``step``.
    """
    traffic = step_traffic(case.optimizer_bytes, case.gradient_bytes, case.weight_bytes, case.reads_weight)
    traffic = traffic * case.traits.optimizer.traffic
    seconds = shard * traffic / case.kernels.stream_for("optimizer").bandwidth
    if not case.offload.optimizer:
        return seconds, shard * (case.weight_bytes * case.offload.fetches) / case.host_copy
    hosted = case.offload.hosted
    down = case.host_gradient_bytes * (1.0 if case.hosts_gradients else hosted)
    link = offload_seconds(shard, down, case.offload.up_bytes * hosted, case.host_copy)
    stepped = host_optimizer_seconds(shard * hosted, ranks, case.engine.host_adam_seconds)
    away = link + maximum(stepped, disk_seconds(case, shard, ranks))
    return maximum((1.0 - hosted) * seconds - away, 0.0), away
