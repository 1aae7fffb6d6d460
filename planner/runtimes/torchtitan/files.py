"""What starts a plan on torchtitan, by version."""

from __future__ import annotations

from planner.plan import Plan
from planner.runtimes._family import Command, Job
from planner.runtimes.torchtitan.current import current_command
from planner.runtimes.torchtitan.toml import toml_command


def torchtitan_command(plan: Plan, job: Job, version: str) -> Command:
    """Return the command line and files of a scalar plan for one of the versions."""
    return toml_command(plan, job, version) if version.startswith("0.2.") else current_command(plan, job)
