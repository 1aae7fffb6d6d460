"""What reads another device's memory by itself, and so runs over links between devices alone."""

from __future__ import annotations

import numpy as np

from planner.plan import Plan
from planner.rules import Mask, Rule
from planner.runtimes.family import Job


def tensor_peer_rule(plan: Plan, job: Job, name: str, runs: Mask, nearest: str) -> Rule:
    """Return the rule that ranks reach each other's memory where their messages run beside products.

    Parameters
    ----------
    plan : Plan
        One, or a batch.
    job : Job
        What is trained, and where.
    name : str
        Of the rule.
    runs : bool or array of bool
        Which plans have such messages.
    nearest : str
        What would do.

    References
    ----------
    .. [1] TransformerEngine d0067d0d, ``examples/pytorch/comm_gemm_overlap/README.md``: a group is on one
       node, joined by NVLink; ``userbuffers-host.cpp``: or in one NVLink domain.
    .. [2] PyTorch 029e4735, ``torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu``: each rank maps
       the memory of the others, on one host or in one NVLink domain.
    """
    pool = job.hardware.pool
    links, domain = pool.node.scaleup, pool.scaleup_domain
    inside = np.less_equal(plan.tp, domain) & links.between_devices
    return Rule(
        name,
        np.less_equal(plan.tp, 1) | np.logical_not(runs) | inside,
        lambda: (
            f"overlap of tensor parallelism, tp {plan.tp:g} over {links.link}",
            f"ranks that NVLink or its like joins, at most {domain}"
            if links.between_devices
            else "ranks that NVLink or its like joins: each reads the memory of the others",
            nearest,
        ),
    )
