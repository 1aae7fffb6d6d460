"""A plan on machines that fail: what a checkpoint holds, how long training waits, and what failures take."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from planner.cost.case import Case
from planner.cost.estimate import Estimate
from planner.cost.memory.host_rules import plan_host_bytes
from planner.cost.slowed import STUCK, Slowed
from planner.dataclasses import dataclass
from planner.formulas.checkpoints import (
    best_interval_seconds,
    disturbed_seconds,
    restart_share,
    stall_seconds,
    two_level_slowdown,
)
from planner.formulas.failures import job_mtbf_seconds
from planner.inputs.failures import FailureProfile
from planner.techniques.recovery import Recovery
from planner.techniques.recovery.family import ENVIRONMENT, QUEUE, Held

SUREST: Final = 0.999
"""Share of failures that a near copy cures at most: no log of failures rules out that two nodes fail. [-]"""


@dataclass(frozen=True)
class Lost:
    """Shares of the whole time, which add up to 1 with those that train. [-]"""

    saving: float
    restarting: float
    recomputing: float
    fewer_machines: float
    relearning: float
    slower_mode: float
    planned_stops: float


@dataclass(frozen=True)
class Level:
    """Copies of the state of one kind."""

    stall: float
    """For which training waits. [s]"""
    written: float
    """Until a copy is safe, from its beginning; a next one begins no sooner. [s]"""
    back: float
    """From a failure until training goes on. [s]"""


@dataclass(frozen=True)
class Reliable(Slowed):
    """A plan with its failures."""

    answer: Estimate
    """The plan without failures."""
    failures: FailureProfile
    """How often machines fail."""
    recovery: Recovery
    """How the job goes on."""
    storage: float
    """At which all ranks together write and read checkpoints. [byte/s]"""
    relearned: float | None = None
    """Steps of learning that a near recovery costs; the most that the recovery says if not given. [-]"""

    @cached_property
    def case(self) -> Case:
        """The plan's techniques."""
        return self.answer.case

    @property
    def gpus(self) -> int:
        """Accelerators. [-]"""
        return self.answer.job.gpus

    @property
    def nodes(self) -> int:
        """Nodes. [-]"""
        return -(-self.gpus // self.answer.job.hardware.pool.gpus_per_node)

    @property
    def mtbf(self) -> float:
        """Mean time between failures of the job. [s]"""
        return float(job_mtbf_seconds(float(self.failures.device_mtbf), float(self.gpus)))

    @property
    def state_bytes(self) -> float:
        """A whole checkpoint: weights, master weights and moments. [byte]"""
        return self.answer.job.model.params * (self.case.weight_bytes + self.case.optimizer_bytes)

    @property
    def replicas(self) -> float:
        """Ranks that hold the same state, optimizer included. [-]"""
        plan = self.answer.plan
        return float(plan.dp * plan.cp / (plan.zero_shards if plan.zero else 1))

    @property
    def host_bytes(self) -> float:
        """Host memory of a node that copies take: its own, and another node's where it keeps that. [byte]"""
        copies = (1 if self.writes_behind else 0) + (2 if self.copies_near else 0)
        return copies * self.state_bytes / self.nodes

    @property
    def writes_behind(self) -> bool:
        """Whether checkpoints are written while training goes on."""
        return self.answer.runtime.behind_saves != "none"

    @property
    def copies_near(self) -> bool:
        """Whether copies are made in other nodes' memory: where no other rank has the same state already."""
        level = self.recovery.level
        return level == "memory" or (level == "peers" and self.replicas < 2)

    @cached_property
    def held(self) -> Held:
        """Who holds what without failures."""
        answer, plan, case = self.answer, self.answer.plan, self.case
        params, cut = answer.job.model.params, float(plan.tp * plan.pp)
        return Held(
            plan=plan,
            model=answer.job.model,
            gpus=self.gpus,
            per_node=answer.job.hardware.pool.gpus_per_node,
            replicas=self.replicas,
            step=answer.step,
            compute=answer.time.compute,
            weight_bytes=params * case.weight_bytes / cut,
            gradient_bytes=params * case.reduce_bytes / (cut * float(plan.zero_shards if plan.zero else 1)),
            state_bytes=self.state_bytes / self.gpus,
            spare_bytes=answer.capacity - answer.peak,
        )

    @property
    def refused(self) -> str | None:
        """Why this recovery cannot be had, None where it can."""
        pool, names = self.answer.job.hardware.pool, self.recovery.runtimes
        if names and self.answer.runtime.name not in names:
            return f"it is for {', '.join(names)}"
        for fault in self.recovery.faults(self.held):
            return f"it {fault}"
        if self.recovery.level != "storage" and self.nodes < 2:
            return "it needs another node"
        has, kept = pool.node.host_memory, float(plan_host_bytes(self.answer.plan, self.case))
        share = self.case.engine.host_share
        if has is not None and self.host_bytes + kept > share * float(has):
            beside = f" beside {kept / 2**30:.0f} GiB of the plan's" if kept else ""
            room = f"{share:.0%} of {float(has) / 2**30:.0f} GiB of host memory"
            return f"copies of {self.host_bytes / 2**30:.0f} GiB{beside} in {room}"
        return None

    @cached_property
    def mode_step(self) -> float:
        """Seconds of a step without failures, as this recovery runs it. [s]"""
        return self.recovery.healthy(self.held)

    @property
    def _copied(self) -> float:
        """Seconds for which training waits until a rank's part of the state is on the host. [s]"""
        own = self.state_bytes / self.gpus
        chip = self.answer.job.hardware.pool.accelerator
        rate = chip.host_copy or chip.host_link or self.storage / self.gpus
        hidden = self.answer.time.compute if self.answer.runtime.behind_saves == "copies" else 0.0
        return float(stall_seconds(own, float(rate), hidden))

    @cached_property
    def far(self) -> Level:
        """Checkpoints in storage."""
        flush = self.state_bytes / self.storage
        stall = self._copied if self.writes_behind else self._copied + flush
        lag = flush if self.writes_behind else 0.0
        near = self.recovery.cures(self.held) if self.recovery.level == "storage" else 0.0
        back = near * self.recovery.pause + (1.0 - near) * self.recovery.restart
        return Level(stall, lag, back + flush)

    @cached_property
    def near(self) -> Level | None:
        """Copies near by, None where there are none."""
        if self.recovery.level == "storage":
            return None
        pool = self.answer.job.hardware.pool
        sent = self.recovery.fetched(self.held) / (pool.nic_bandwidth or self.storage / self.gpus)
        stall, written = (self._copied, sent) if self.copies_near else (0.0, 0.0)
        return Level(stall, written, self.recovery.pause + sent)

    @property
    def fewer(self) -> float:
        """Seconds that a failure costs by the work of what is missing until it is back. [s]"""
        return self.recovery.repair * self.recovery.missing(self.held)

    @property
    def learning_steps(self) -> tuple[float, float]:
        """Steps of learning that a near recovery costs, least and most. [-]"""
        return self.recovery.learning if self.relearned is None else (self.relearned, self.relearned)

    @property
    def relearning(self) -> float:
        """Seconds that a near recovery costs by what has to be learned again, at most. [s]"""
        return self.learning_steps[1] * self.mode_step

    @property
    def cured(self) -> float:
        """Share of failures that a near copy cures. [-]"""
        if self.near is None:
            return 0.0
        return min(SUREST, (1.0 - float(self.failures.beyond_node)) * self.recovery.cures(self.held))

    def _steps(self, level: Level, cured: float, inner: float = 1.0) -> int:
        """Return the steps between copies of one kind: the best, and none begins before the last is safe."""
        if level.stall == 0 and level.written == 0:
            return 1
        mtbf = self.mtbf / cured
        wanted = float(best_interval_seconds(max(level.stall, 1e-3 * self.mode_step), mtbf)) / inner
        return max(1, round(max(wanted, level.written) / self.mode_step))

    @cached_property
    def near_steps(self) -> int | None:
        """Steps between copies near by. [-]"""
        return None if self.near is None else self._steps(self.near, self.cured)

    @cached_property
    def far_steps(self) -> int:
        """Steps between checkpoints in storage. [-]"""
        return self._steps(self.far, 1.0 - self.cured, self._inner)

    @property
    def _near(self) -> tuple[float, float, float]:
        if self.near is None or self.near_steps is None:
            return 1.0, 0.0, 0.0
        back = self.near.back + self.near.written + self.fewer + self.relearning
        return self.near_steps * self.mode_step, self.near.stall, back

    @property
    def _inner(self) -> float:
        return float(two_level_slowdown(self._near, (1.0, 0.0, 0.0), self.mtbf, self.cured))

    @property
    def _far(self) -> tuple[float, float, float]:
        return self.far_steps * self.mode_step, self.far.stall, self.far.back + self.far.written

    @property
    def _planned(self) -> float:
        """Time with planned stops over that without. [-]"""
        every = self.failures.planned_every
        back = QUEUE + ENVIRONMENT + self.state_bytes / self.storage
        return 1.0 if every is None else 1.0 / (1.0 - min(0.99, back / float(every)))

    @property
    def gets_on(self) -> bool:
        """Whether the job is not so often stopped that it hardly ever reaches a checkpoint."""
        far = sum(self._far) / self.mtbf * (1.0 - self.cured)
        return far < STUCK and sum(self._near) / self.mtbf * self.cured < STUCK

    @cached_property
    def slowdown(self) -> float:
        """Expected time over that of the plan's steps alone. [-]"""
        if not self.gets_on:
            return float("inf")
        failing = float(two_level_slowdown(self._near, self._far, self.mtbf, self.cured))
        return failing * self._planned * self.mode_step / self.answer.step

    @property
    def goodput(self) -> float:
        """Share of the time that trains at the plan's own speed. [-]"""
        return 1.0 / self.slowdown

    @property
    def step(self) -> float:
        """Seconds of the whole time for each step. [s]"""
        return self.answer.step * self.slowdown

    @cached_property
    def lost(self) -> Lost:
        """Where the rest of the time goes."""
        mode, planned = self.mode_step / self.answer.step, self._planned
        near, far = self._near, self._far
        saving = (near[1] / near[0] + far[1] / far[0]) * mode * self.goodput
        whole = float(disturbed_seconds(far[2], self.mtbf, self.cured))
        waits = [
            float(restart_share(near[2], self.mtbf / max(self.cured, 1e-12))) / planned,
            float(restart_share(whole, self.mtbf / (1.0 - self.cured))) / planned,
        ]
        fewer, learned = (
            waits[0] * one / near[2] if near[2] else 0.0 for one in (self.fewer, self.relearning)
        )
        lag_near = waits[0] * self.near.written / near[2] if self.near is not None and near[2] else 0.0
        lag_far = waits[1] * self.far.written / far[2]
        restarting = sum(waits) - fewer - learned - lag_near - lag_far
        slower, stops = (mode - 1.0) * self.goodput, 1.0 - 1.0 / planned
        rest = 1.0 - self.goodput - saving - restarting - fewer - learned - slower - stops
        return Lost(saving, restarting, max(0.0, rest), fewer, learned, slower, stops)
