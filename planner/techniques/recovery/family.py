"""How a job goes on after a failure: from where it takes its state, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from planner.dataclasses import dataclass
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.units import HOUR

Level = Literal["storage", "memory", "peers", "neighbours"]

NCCL_TIMEOUT = 600.0
"""Until a collective counts as stuck: PyTorch's default, which the launch files keep. [s]"""

QUEUE, ENVIRONMENT = 540.0, 840.0
"""Waiting for another node, and starting containers, processes and communicators: two of the four parts of a
default restart that Alibaba saw (quoted in Unicron, arXiv:2401.00134). [s]"""

WATCHED = 60.0
"""Until an agent on the node tells of a failure: the soft timeout of an in-process restart (Megatron-LM
d98e8a64, ``megatron/training/arguments.py``: ``--inprocess-soft-timeout``). [s]"""


@dataclass(frozen=True)
class Held:
    """Who holds what of a plan without failures, as a recovery asks for it."""

    plan: Plan
    model: ModelSpec
    """The layout, and what it trains."""
    gpus: int
    per_node: int
    """Accelerators, and those of a node. [-]"""
    replicas: float
    """Ranks that hold the same state, optimizer included. [-]"""
    step: float
    """A step without failures. [s]"""
    compute: float
    """Of it the arithmetic. [s]"""
    weight_bytes: float
    gradient_bytes: float
    """Weights, and gradients as replicas exchange them, of one rank. [byte]"""
    state_bytes: float
    """Weights and optimizer states of one rank, each once over all ranks. [byte]"""
    spare_bytes: float
    """Memory of a device that the plan leaves. [byte]"""

    @property
    def nodes(self) -> int:
        """Nodes. [-]"""
        return -(-self.gpus // self.per_node)


def _no_faults(held: Held) -> Iterator[str]:
    yield from ()


def _same_step(held: Held) -> float:
    return held.step


def _whole(held: Held) -> float:
    return 1.0


def _own_state(held: Held) -> float:
    return held.state_bytes


def _nothing(held: Held) -> float:
    return 0.0


def _no_layouts(gpus: int, per_node: int, model: ModelSpec) -> Iterator[dict[str, Any]]:
    yield from ()


@dataclass(frozen=True)
class Recovery:
    """One way to go on."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    level: Level
    """Where the state is from: the last checkpoint, a copy in another node's memory, the ranks of other
    replicas, which hold it at every step, or the pipeline stages before and after the lost one."""
    pause: float
    """From a failure until training goes on, without loading, where the near copy is left. [s]"""
    restart: float = NCCL_TIMEOUT + QUEUE + ENVIRONMENT
    """The same where all of it is lost and comes from storage. [s]"""
    faults: Callable[[Held], Iterator[str]] = _no_faults
    """Why a plan cannot have it, each in words."""
    healthy: Callable[[Held], float] = _same_step
    """Seconds of a step without failures, as it runs them. [s]"""
    mode_note: str = ""
    """Why that is longer than the plan's own step, in words."""
    cures: Callable[[Held], float] = _whole
    """Share of failures within a node after which it goes on without storage; from storage alone, share of
    all after which it goes on so soon. [-]"""
    fetched: Callable[[Held], float] = _own_state
    """What each accelerator of the lost node gets from others. [byte]"""
    missing: Callable[[Held], float] = _nothing
    """Share of the work that is missing until a lost node is back. [-]"""
    repair: float = HOUR
    """Until a lost node is back, for those that go on without it. [s]"""
    learning: tuple[float, float] = (0.0, 0.0)
    """Steps of learning that a failure costs beside its time: least and most. [-]"""
    layouts: Callable[[int, int, ModelSpec], Iterator[dict[str, Any]]] = _no_layouts
    """Axes that it asks for on so many accelerators of so many to a node, to be searched too."""
    runtimes: tuple[str, ...] = ()
    """Those that have it; empty for any, with a service beside it."""
    beside: str = ""
    """What a run needs beside its runtime, in words."""
    runner: bool = True
    """Whether some runner, or a service beside it, is known to have it; others are compared where named."""
    aliases: tuple[str, ...] = ()
    """Other names."""


def needs_replicas(held: Held) -> Iterator[str]:
    """Yield that no other replica is there to go on."""
    if float(held.plan.dp) < 2:
        yield "needs replicas, and dp is 1"
