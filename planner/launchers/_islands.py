"""A job over islands: how its ranks are told where they are, and NCCL that several networks join them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.errors import UnsupportedPlan
from planner.runtimes.family import Job

SEVERAL_NETWORKS: Final[Mapping[str, str]] = {"NCCL_ALLNET_ENABLE": "1", "NCCL_SCATTER_XDC": "1"}
"""One network inside an island and another between them in one communicator, over several nodes each.

References
----------
.. [1] NVIDIA, "NCCL Deep Dive: Cross Data Center Communication and Network Topology Awareness," 2025.
"""
NEEDS: Final = ("NODE_RANK",)
"""What the user sets on each node: ranks have to follow the islands."""


def is_over_islands(job: Job) -> bool:
    """Whether a job lies in several islands of its cluster."""
    islands = job.hardware.pool.islands
    return islands is not None and job.gpus > islands.gpus


def island_variables(job: Job) -> Mapping[str, str]:
    """Return what a job over islands exports."""
    return SEVERAL_NETWORKS if is_over_islands(job) else {}


def island_notes(job: Job) -> tuple[str, ...]:
    """Return what to know before starting a job over islands."""
    islands = job.hardware.pool.islands
    if islands is None or not is_over_islands(job):
        return ()
    nodes = islands.gpus // job.hardware.pool.gpus_per_node
    return (
        f"The job lies in {job.gpus // islands.gpus} islands: NODE_RANK 0 to {nodes - 1} are the nodes of "
        f"the first, the next {nodes} those of the next, and so on. Set it on every node, and MASTER_ADDR to "
        "the address of node 0.",
        "NCCL_ALLNET_ENABLE lets one communicator use the network inside an island and sockets between "
        "them; where one InfiniBand or RoCE fabric reaches all, name it by NCCL_IB_HCA and "
        "NCCL_IB_FABRICID_MAXRAIL.",
    )


def refuse_launcher(launcher: str, job: Job) -> None:
    """Refuse a launcher that gives nodes their ranks itself.

    Raises `UnsupportedPlan` if the job lies in several islands, and the launcher is not torchrun.
    """
    if launcher != "torchrun" and is_over_islands(job):
        raise UnsupportedPlan(
            f"{launcher} gives nodes their ranks, which have to follow the islands; nearest: torchrun"
        )
