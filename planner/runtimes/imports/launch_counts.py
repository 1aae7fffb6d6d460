"""On how many nodes and accelerators the words of a launcher start a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from planner.units import is_whole

Flags = Mapping[str, str]

NODES: Final = ("--nnodes", "--num_nodes", "--num_machines", "-N", "--nodes")
RANKS: Final = ("--nproc-per-node", "--nproc_per_node", "--num_gpus", "--gpus-per-node", "--ntasks-per-node")

MPI: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "prterun", "aprun")
OF_MPI: Final = ("-npernode", "--npernode", "-ppn", "--ppn", "-N", "-perhost", "--ntasks-per-node")
"""Launchers of MPI, and what they call the ranks of a node."""


def first_count(names: Iterable[str], *tables: Mapping[str, str]) -> int | None:
    """Return the first whole number that one of the flags has; the program may stand behind it."""
    for table in tables:
        for name in names:
            said = table.get(name, "").partition(" ")[0]
            if is_whole(said):
                return int(said)
    return None


def by_mpi(before: Flags) -> tuple[int | None, int | None]:
    """Return nodes and ranks of each that an MPI launcher starts: its ``-N`` is of a node, not of nodes."""
    total, share = first_count(("-np", "-n", "--np", "--n"), before), first_count(OF_MPI, before)
    mapped = re.match(r"ppr:(\d+):node", before.get("--map-by", before.get("-map-by", "")))
    share = share or (int(mapped[1]) if mapped else None)
    if total and share and total % share == 0:
        return total // share, share
    return (1, total) if total and not share else (None, share)


def ranks_of_node(directives: Mapping[str, str]) -> int | None:
    """Return the accelerators of a node; its one task is a launcher where the node has several."""
    tasks, devices = first_count(RANKS, directives), _gres(directives)
    return devices if devices and tasks in (None, 1) else tasks


def _gres(directives: Mapping[str, str]) -> int | None:
    match = re.fullmatch(r"gpu:(?:\w+:)?(\d+)", directives.get("--gres", ""))
    return int(match[1]) if match else None
