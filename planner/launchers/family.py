"""A launcher: what starts a runtime's command on every node of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.cost.legal import nodes_rule
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.rules import violations
from planner.runtimes.family import Command, Job
from planner.runtimes.variables import VARIABLES

__all__ = ["VARIABLES", "Launcher", "LauncherSettings", "node_shape"]


@dataclass(frozen=True)
class LauncherSettings:
    """What a launcher says beside the command."""

    runtime: str
    """The runtime as its authors write it."""
    title: str
    """What is started, with which version, for the head of the file."""
    name: str
    """Name of the job: letters, digits and dashes."""
    port: int = 29500
    """Port on which the ranks meet."""
    smoke: bool = False
    """Whether the files start a smoke run where the user sets nothing."""


@dataclass(frozen=True)
class Launcher:
    """One way to start a job."""

    name: str
    """As on the command line."""
    title: str
    """As its authors write it."""
    cite: str
    """Where its format was read."""
    start: str
    """How a user starts what it wrote, with the main file's name in it."""
    files: Callable[[Command, Job, LauncherSettings], Mapping[str, str]]
    """From (command, job, settings) to the files, name to text, the one to start first."""
    needs: tuple[str, ...] = ()
    """User variables that the launcher needs beside those of the command, in either kind of run."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    remote: bool = False
    """Whether it starts them where folders of this machine may be missing."""


def node_shape(job: Job) -> tuple[int, int]:
    """Return how many nodes the job takes, and how many ranks start on each.

    Raises
    ------
    InputError
        If the accelerators do not fill whole nodes.
    """
    per_node = job.hardware.pool.gpus_per_node
    if broken := violations([nodes_rule(job)]):
        raise InputError(Problem("--gpus", str(job.gpus), broken[0].expected, broken[0].nearest))
    return (job.gpus // per_node, per_node) if job.gpus > per_node else (1, job.gpus)
