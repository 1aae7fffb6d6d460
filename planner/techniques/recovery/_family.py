"""How a job goes on after a failure: from where it takes its state, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.units import HOUR

Level = Literal["storage", "memory", "peers"]

NCCL_TIMEOUT = 600.0
"""Until a collective counts as stuck: PyTorch's default, which the launch files keep. [s]"""

QUEUE, ENVIRONMENT = 540.0, 840.0
"""Waiting for another node, and starting containers, processes and communicators: two of the four parts of a
default restart that Alibaba saw (quoted in Unicron, arXiv:2401.00134). [s]"""

WATCHED = 60.0
"""Until an agent on the node tells of a failure: the soft timeout of an in-process restart (Megatron-LM
d98e8a64, ``megatron/training/arguments.py``: ``--inprocess-soft-timeout``). [s]"""


@dataclass(frozen=True)
class Recovery:
    """One way to go on.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line.
    cite : str
        Where it is described.
    level : {"storage", "memory", "peers"}
        Where the state is from: the last checkpoint, a copy in another node's memory, or the ranks of other
        replicas, which hold it at every step.
    pause : float
        From a failure until training goes on, without loading, where the near copy is left. [s]
    restart : float
        The same where all of it is lost and comes from storage. [s]
    replicas : bool
        Whether a lost replica is left out until its node is back, rather than its work given to all.
    exchange_rate : float, optional
        At which one rank exchanges gradients between replicas, where that leaves the fast network. [byte/s]
    runtimes : tuple of str
        Those that have it; empty for any.
    repair : float
        Until a lost node is back, for those that go on without it. [s]
    """

    name: str
    cite: str
    level: Level
    pause: float
    restart: float = NCCL_TIMEOUT + QUEUE + ENVIRONMENT
    replicas: bool = False
    exchange_rate: float | None = None
    runtimes: tuple[str, ...] = ()
    repair: float = HOUR
    aliases: tuple[str, ...] = ()
