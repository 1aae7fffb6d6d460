"""Memory beside that of a training step: evaluation, a checkpoint on its way to disk, states on the host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from planner.cost.estimate import StageBytes
from planner.cost.memory.activation_offload import bytes_beside_host
from planner.cost.memory.host_checkpoints import host_checkpoint_bytes
from planner.cost.memory.host_rules import disk_states, host_states
from planner.dataclasses import dataclass
from planner.report.as_json import Document
from planner.report.deepspeed_estimate import deepspeed_estimate
from planner.report.page import Page, Table
from planner.report.waterfall import Anatomy
from planner.units import GIB


@dataclass(frozen=True)
class Beside:
    """One use of memory."""

    what: str
    place: str
    """What it is, and where: ``device``, or ``host`` or ``disk`` for all of a node."""
    nbytes: float
    """No more than this. [byte]"""
    capacity: float | None
    """What there is, where the profile says. [byte]"""

    @property
    def fits(self) -> bool:
        """Whether there is as much, or nobody says how much there is."""
        return self.capacity is None or self.nbytes <= self.capacity


@dataclass(frozen=True)
class BesideStep:
    """What a plan needs when it does not train, told from the plan taken apart."""

    anatomy: Anatomy

    def uses(self) -> Iterator[Beside]:
        """Yield evaluation, checkpoint and what lives on the host."""
        answer, pool = self.anatomy.answer, self.anatomy.case.pool
        host = None if pool.node.host_memory is None else float(pool.node.host_memory)
        yield Beside("evaluation, micro-batch as in training", "device", self.evaluation, answer.capacity)
        trained, most = int(answer.plan.micro_batch), self.evaluated_sequences
        if most > trained:
            what = f"evaluation, micro-batch {most:,}, the largest"
            yield Beside(what, "device", self.evaluation_of(most / trained), answer.capacity)
        yield Beside("a checkpoint, shards copied at once", "host", self.checkpoint, host)
        if (own := deepspeed_estimate(self.anatomy.case, answer.plan)) is not None:
            for nbytes, place, capacity in zip(own, ("device", "host"), (answer.capacity, host), strict=True):
                yield Beside("states, by DeepSpeed's own estimator", place, nbytes, capacity)
        plan, case = answer.plan, self.anatomy.case
        disk = None if pool.node.nvme is None else float(pool.node.nvme)
        for place, parts, capacity in (
            ("host", host_states(plan, case), host),
            ("disk", disk_states(plan, case), disk),
        ):
            if parts:
                what = f"offloaded {', '.join(parts)}"
                yield Beside(what, place, float(sum(parts.values())), capacity)
        if self.activations:
            yield Beside("offloaded activations", "host", self.activations, host)

    @cached_property
    def node_ranks(self) -> int:
        """Ranks that share a node's memory. [-]"""
        return min(self.anatomy.case.pool.gpus_per_node, self.anatomy.answer.job.gpus)

    @property
    def evaluation(self) -> float:
        """A forward pass that keeps nothing, beside all that lives from step to step. [byte]

        It does what the forward of a training step does and keeps less, so that it never needs more.
        """
        stages = self.anatomy.answer.stages
        return max(min(self._evaluated(stage), stage.total) for stage in stages)

    def _evaluated(self, stage: StageBytes) -> float:
        used = self.anatomy.parts.passes.nbytes
        layer, loss = used.one_layer + used.rebuilt, used.loss
        gathered = 2.0 * used.gathered_layer + used.gathered_head + used.gathered_embedding
        passing = float(np.max(np.maximum(layer, loss) + gathered))
        lasting = stage.weights + stage.gradients + stage.optimizer
        return lasting + passing + stage.reserve + stage.framework

    def evaluation_of(self, times: float) -> float:
        """A forward pass of ``times`` as many sequences as training has in one. [byte]"""
        return max(self._lasting(stage) + times * self._grown(stage) for stage in self.anatomy.answer.stages)

    @cached_property
    def evaluated_sequences(self) -> int:
        """Most sequences of a rank in one forward pass of an evaluation that fits. [-]"""
        answer = self.anatomy.answer
        left = [(answer.capacity - self._lasting(stage)) / self._grown(stage) for stage in answer.stages]
        return int(answer.plan.micro_batch * max(0.0, min(left)))

    def _grown(self, stage: StageBytes) -> float:
        """What grows with the sequences of a pass: its tensors, and the slack of training. [byte]"""
        used = self.anatomy.parts.passes.nbytes
        return float(np.max(np.maximum(used.one_layer + used.rebuilt, used.loss))) + stage.reserve

    def _lasting(self, stage: StageBytes) -> float:
        """What does not: weights, gradients and states that are kept, gathered weights, the frame. [byte]"""
        used = self.anatomy.parts.passes.nbytes
        gathered = np.max(2.0 * used.gathered_layer + used.gathered_head + used.gathered_embedding)
        return stage.weights + stage.gradients + stage.optimizer + float(gathered) + stage.framework

    @cached_property
    def activations(self) -> float:
        """Saved tensors of the ranks of a node that wait in its memory, at their peak. [byte]"""
        anatomy, whole = self.anatomy, self.anatomy.parts.passes.nbytes
        if anatomy.parts.hosted is not None:
            return self.node_ranks * max(anatomy.parts.hosted.host)
        if not anatomy.case.offload.layers:
            return self.node_ranks * float(host_checkpoint_bytes(anatomy.case, anatomy.answer.plan))
        case, plan, stages = anatomy.case, anatomy.answer.plan, anatomy.parts.stages
        kept = bytes_beside_host(case, plan, whole, anatomy.parts.passes.layers, stages.rank).activations
        return self.node_ranks * float(np.max(whole.activations - kept))

    @property
    def checkpoint(self) -> float:
        """Weights and optimizer states of a node's ranks, all on the host before they are written. [byte]"""
        largest = max(stage.weights + stage.optimizer for stage in self.anatomy.answer.stages)
        return self.node_ranks * largest + self.states

    @cached_property
    def states(self) -> float:
        """States, weights and gradients that rest in the memory of a node, and buffers there. [byte]"""
        parts = host_states(self.anatomy.answer.plan, self.anatomy.case)
        return float(sum(parts.values()))


def beside_page(anatomy: Anatomy) -> Page:
    """Return memory beside the step for people."""
    uses = [*BesideStep(anatomy).uses()]
    rows = [
        {
            "outside the step": use.what,
            "where": "device" if use.place == "device" else f"{use.place} of a node",
            "GiB, at most": f"{use.nbytes / GIB:,.1f}",
            "of": "-" if use.capacity is None else f"{use.capacity / GIB:,.1f}",
        }
        for use in uses
    ]
    short = [use for use in uses if not use.fits]
    return [Table(tuple(rows)), *(f"Mind: the {use.place} may not hold {use.what}." for use in short)]


def beside_rows(anatomy: Anatomy) -> list[Document]:
    """Return memory beside the step as JSON."""
    return [
        {
            "what": use.what,
            "place": use.place,
            "at_most_gib": use.nbytes / GIB,
            "capacity_gib": None if use.capacity is None else use.capacity / GIB,
            "fits": use.fits,
        }
        for use in BesideStep(anatomy).uses()
    ]
