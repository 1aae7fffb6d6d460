"""Steps of unequal lengths, drawn: what order, balance and context parallelism by length would give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case
from planner.cost.estimate import Estimate, estimate
from planner.cost.layer.lengths_dealt import apart_excess, document_ranks, is_by_length
from planner.cost.step.unequal import attention_seconds, waiting_seconds, waits_each_pass
from planner.dataclasses import dataclass
from planner.inputs.lengths import PackedLengths
from planner.inputs.model import LatentAttention
from planner.numeric import ceil

STEPS: Final = 64
"""Steps that are drawn. [-]"""

Costs = NDArray[np.float64]
"""Attention over the mean, by step, rank and micro-batch. [-]"""


@dataclass(frozen=True)
class LengthClass:
    """Documents of about one length."""

    least: int
    most: int
    """Shortest and longest. [token]"""
    documents: float
    tokens: float
    """Shares of all documents and of their tokens. [-]"""
    ranks: int
    """Ranks that each takes where context parallelism follows the length. [-]"""


@dataclass(frozen=True)
class UnevenSteps:
    """Steps of one plan, drawn from its lengths with a fixed seed."""

    answer: Estimate
    """The plan, priced."""

    @cached_property
    def case(self) -> Case:
        """The plan's techniques."""
        return self.answer.case

    @cached_property
    def packed(self) -> PackedLengths:
        """Its lengths, packed."""
        found = self.answer.job.workload.packed
        if found is None:
            raise AssertionError("lengths are alike")
        return found

    @cached_property
    def growing(self) -> float:
        """Seconds of a step's attention that grow with the lengths of documents. [s]"""
        plan = self.answer.plan
        return float(plan.num_microbatches * attention_seconds(self.case, plan))

    @cached_property
    def even(self) -> float:
        """Seconds of a step whose ranks never wait for unequal lengths. [s]"""
        return float(self.answer.step - waiting_seconds(self.case, self.answer.plan))

    @property
    def each_pass(self) -> bool:
        """Whether ranks wait for one another in every micro-batch, not at the end of the step alone."""
        return bool(waits_each_pass(self.case, self.answer.plan))

    def _drawn(self) -> Costs:
        """Return sequences as they come: step, rank, micro-batch, sequence. [-]"""
        plan = self.answer.plan
        size = (STEPS, int(plan.dp), int(plan.num_microbatches), int(plan.micro_batch))
        drawn: Costs = np.random.default_rng(1).choice(self.packed.costs, size)
        return drawn

    @cached_property
    def arrived(self) -> Costs:
        """Attention as sequences come."""
        found: Costs = self._drawn().mean(axis=3)
        return found

    @cached_property
    def balanced(self) -> Costs:
        """Attention with the sequences of a step dealt back and forth, the longest documents first.

        Which sequences are in a step is as before, so that a loss by tokens has the same gradient.
        """
        drawn = self._drawn()
        steps, ranks, count, size = drawn.shape
        rows = -np.sort(-drawn.reshape(steps, -1), axis=1).reshape(steps, count * size, ranks)
        rows[:, 1::2] = rows[:, 1::2, ::-1]
        found: Costs = rows.transpose(0, 2, 1).reshape(steps, ranks, count, size).mean(axis=3)
        return found

    def seconds(self, costs: Costs, each_pass: bool) -> NDArray[np.float64]:
        """Seconds of each drawn step: by the sum of maxima, or by the maximum of sums. [s]"""
        slowest = costs.max(axis=1).mean(axis=1) if each_pass else costs.mean(axis=2).max(axis=1)
        found: NDArray[np.float64] = self.even + self.growing * (slowest - costs.mean(axis=(1, 2)))
        return found

    def imbalance(self, costs: Costs) -> float:
        """Attention of the busiest rank over the mean, as ranks wait. [-]"""
        slowest = costs.max(axis=1).mean(axis=1) if self.each_pass else costs.mean(axis=2).max(axis=1)
        return float((slowest / costs.mean(axis=(1, 2))).mean())

    @property
    def spread(self) -> float:
        """Standard deviation of a step over its mean, sequences as they come. [-]"""
        drawn = self.seconds(self.arrived, self.each_pass)
        whole = drawn + self.growing * (self.arrived.mean(axis=(1, 2)) - 1.0)
        return float(whole.std() / whole.mean())

    @property
    def one_sided_gain(self) -> float:
        """Speed-up where ranks waited once a step in place of once a pass, minus one (ODC). [-]"""
        return float(self.seconds(self.arrived, True).mean() / self.seconds(self.arrived, False).mean() - 1.0)

    @property
    def capacity(self) -> float:
        """Tokens of a sequence that a rank takes. [token]"""
        work = self.answer.job.workload
        return float(work.max_tokens_per_rank or ceil(work.seq_len / self.answer.plan.cp))

    def ranks_of(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ranks of documents where context parallelism follows the length. [-]"""
        plan, layers = self.answer.plan, float(self.answer.job.model.num_layers)
        return document_ranks(lengths, self.capacity, layers, float(plan.cp * plan.dp))

    @cached_property
    def classes(self) -> tuple[LengthClass, ...]:
        """Documents by the ranks that they take."""
        lengths = self.packed.lengths.astype(float)
        ranks = self.ranks_of(lengths)
        found = []
        for count in np.unique(ranks):
            own = lengths[ranks == count]
            shares = (len(own) / len(lengths), float(own.sum() / lengths.sum()))
            found.append(LengthClass(int(own.min()), int(own.max()), *shares, int(count)))
        return tuple(found)

    @cached_property
    def by_length(self) -> Estimate:
        """The plan with just the ranks for each document that it needs, balanced by FLOPs.

        Messages of context parallelism go between the ranks of a document alone, and ranks wait as long as
        they do with sequences balanced; loss and gradients are summed by tokens over all ranks.

        References
        ----------
        .. [1] H. Ge et al., "ByteScale," arXiv:2502.21231, 2025, sec. 5: P2P only inside the ranks of a
           document, equal FLOPs on all ranks.
        """
        if is_by_length(self.case):
            return self.answer
        runtime = self.answer.runtime.with_traits(context_by_length=True)
        return estimate(self.answer.plan, self.answer.job, runtime)

    @property
    def unbalanced(self) -> float:
        """Seconds of such a step whose documents stay on the ranks that they come to. [s]"""
        other = self.by_length
        case = other.case
        even = float(other.step - waiting_seconds(case, other.plan))
        return even + self.growing * apart_excess(case, other.plan)

    def dynamic_limits(self) -> Iterator[str]:
        """Yield why Megatron-LM's dynamic context parallelism does not run the plan.

        References
        ----------
        .. [1] NVIDIA, Megatron-LM, ``megatron/training/arguments.py``: what
           ``--hybrid-context-parallel`` asserts.
        """
        model, plan = self.answer.job.model, self.answer.plan
        if self.case.sharding.stage == 3 or self.answer.runtime.traits.engine.name.startswith("fsdp"):
            yield "Megatron-FSDP: all ranks gather weights together, and here they run unlike passes"
        if self.case.has_experts:
            yield "experts: their all-to-all joins ranks that run different numbers of micro-batches"
        if any(isinstance(block.mixer, LatentAttention) for block in model.blocks.values()):
            yield "latent attention: its context parallelism has no groups by length"
        if any(block.recurrent is not None for block in model.blocks.values()):
            yield "hybrid layers: a recurrent state is not cut by documents' own groups"
        if plan.micro_batch > 1:
            yield "micro-batches of several sequences: documents are dealt to ranks one pack at a time"
