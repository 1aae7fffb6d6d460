"""Reinforcement learning on a pool: generation, scoring and training in turn on all, or side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.rollout import BYTES, Answers, Generator, best_engine
from planner.dataclasses import dataclass, replace
from planner.formulas.post_training import push_seconds, reshard_share
from planner.inputs.hardware import Pool
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.techniques.methods import METHODS
from planner.units import HOUR

SHARES: Final = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Shares of the accelerators that train where others generate. [-]"""


def forward_seconds(train: Estimate) -> float:
    """Return the seconds of a forward pass over a step's tokens: by its share of the step's FLOPs. [s]

    Backward is twice forward, once where weights are frozen, and recompute is forward again.
    """
    method = METHODS[train.job.workload.method]
    forwards = method.forwards or (3.0 if method.trains_base else 2.0) * train.hfu / train.mfu
    return (train.step - train.time.optimizer) / forwards


@dataclass(frozen=True)
class Placement:
    """One way to place generation and training, with its price."""

    engine: Generator
    """What generates."""
    train: Estimate
    """The plan that trains."""
    scorings: int
    """Forward passes over all answers before training: of the policy itself, and of a reference. [-]"""
    apart: bool
    """Whether others generate the next step's answers while these train."""

    @property
    def gpus(self) -> int:
        """Accelerators in all. [-]"""
        return self.train.job.gpus + (self.engine.gpus if self.apart else 0)

    @property
    def generating(self) -> float:
        """Seconds in which answers are generated, their prompts read. [s]"""
        return self.engine.seconds + self._prefill

    @property
    def _prefill(self) -> float:
        """Seconds in which prompts are read, each once: forward as fast as the plan that trains. [s]"""
        engine, job = self.engine, self.train.job
        tokens = engine.answers.prompts * engine.answers.prompt_tokens
        slower = rate_of(job.hardware.pool) / rate_of(engine.pool)
        return self._forward(tokens) * slower * job.gpus / engine.gpus

    def _forward(self, tokens: float) -> float:
        return forward_seconds(self.train) * tokens / self.train.job.workload.tokens_per_step

    @property
    def scoring(self) -> float:
        """Seconds of the passes before training. [s]"""
        return self.scorings * self._forward(self.train.job.workload.tokens_per_step)

    @property
    def training(self) -> float:
        """Seconds of the optimizer step. [s]"""
        return self.train.step

    @cached_property
    def weights(self) -> float:
        """Seconds until the engine has the new weights. [s]"""
        engine, plan = self.engine, self.train.plan
        nbytes = BYTES * engine.model.params
        tiers, domain = engine.pool.tiers, engine.pool.scaleup_domain
        if self.apart:
            trainers = self.train.job.hardware.pool
            near = engine.pool == trainers and self.gpus <= domain
            link, senders = tiers[0 if near else -1], float(self.train.job.gpus)
            rate = min(link.pair_bandwidth, math.inf if near else trainers.tiers[-1].pair_bandwidth)
            seconds = push_seconds(nbytes, senders, engine.gpus, engine.ranks, rate, link.latency)
            return float(seconds)
        sharing = float(plan.tp * (plan.zero_shards if plan.zero == 3 else plan.ep))
        link = tiers[-1 if sharing * float(plan.pp) > domain else 0]
        share = float(reshard_share(sharing, float(plan.pp), engine.ranks))
        return nbytes * share / link.bandwidth + link.latency

    @property
    def usd(self) -> float | None:
        """What a step costs, where the prices of all accelerators are known. [USD]"""
        train, price = self.train.bill.usd_per_step, self.engine.pool.price_per_hour
        if train is None or price is None:
            return None
        others = self.engine.gpus * float(price) * self.step / HOUR if self.apart else 0.0
        return train * self.step / self.train.step + others

    @property
    def step(self) -> float:
        """Seconds of one step of learning. [s]"""
        there = self.scoring + self.training
        longest = max(self.generating, there) if self.apart else self.generating + there
        return longest + self.weights

    @property
    def limit(self) -> str:
        """What takes longest."""
        parts = {"generation": self.generating, "training": self.scoring + self.training}
        return max({**parts, "weights": self.weights}.items(), key=lambda one: one[1])[0]


@dataclass(frozen=True)
class PostTraining:
    """All placements that fit, the fastest first."""

    placements: tuple[Placement, ...]
    answers: Answers
    request: SearchRequest


def rate_of(pool: Pool) -> float:
    """Return the arithmetic that one accelerator reaches in 16 bit. [FLOP/s]"""
    return float(pool.accelerator.kernels.gemm["bf16"].rate)


def place(
    request: SearchRequest, answers: Answers, reference: bool, others: tuple[Pool, int] | None = None
) -> PostTraining:
    """Return the placements of a step on one cluster: all accelerators in turn, and shares side by side.

    Shares whose generation alone takes longer than the best found are left out.

    ``request``: the training alone, on all accelerators; ``reference``: whether a frozen copy scores answers
    too; ``others``: accelerators of another cluster that generate beside all of this one.
    """
    found = list(_placements(request, answers, reference, others))
    return PostTraining(tuple(sorted(found, key=lambda one: one.step)), answers, request)


def _placements(
    request: SearchRequest, answers: Answers, reference: bool, others: tuple[Pool, int] | None
) -> Iterator[Placement]:
    gpus, pool, best = request.gpu_counts[0], request.clusters[0].pool, float("inf")
    if others is not None:
        there, plan = best_engine(request.model, *others, answers), _trained(request, gpus, reference)
        if there is not None and plan is not None:
            yield Placement(there, plan, 1 + reference, True)
    for train in (gpus, *_counts(gpus, pool.gpus_per_node)):
        apart = train < gpus
        engine = best_engine(request.model, pool, gpus - train if apart else gpus, answers)
        if engine is None or engine.seconds >= best:
            continue
        plan = _trained(request, train, reference)
        if plan is not None:
            found = Placement(engine, plan, 1 + reference, apart)
            best = min(best, found.step)
            yield found


def _counts(gpus: int, per_node: int) -> list[int]:
    """Return how many accelerators may train beside others: whole nodes, or any of one node.

    Examples
    --------
    >>> _counts(64, 8), _counts(8, 8)
    ([8, 16, 24, 32, 40, 48, 56], [1, 2, 3, 4, 5, 6, 7])
    """
    unit = per_node if gpus > per_node else 1
    return sorted({unit * round(share * gpus / unit) for share in SHARES} - {0, gpus})


def _trained(request: SearchRequest, gpus: int, reference: bool) -> Estimate | None:
    """Return the fastest plan on so many accelerators, beside a frozen copy spread over all of them."""
    pool = request.clusters[0].pool
    usable = pool.accelerator.memory_usable
    limit = min(usable, request.memory_limit or usable)
    limit -= BYTES * request.model.params / gpus if reference else 0.0
    asked = replace(request, gpu_counts=(gpus,), top=1, memory_limit=limit, uniform=True)
    found = found_plans(asked, advise=False)
    return found.plans[0] if found.plans else None
