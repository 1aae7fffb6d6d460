"""The doubt about copies to the host that share a link with messages to other nodes."""

from __future__ import annotations

from planner.cost.estimate import Estimate
from planner.report.limits import WORTH_TELLING
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.units import percent


def unproven_link(answer: Estimate) -> list[str]:
    """Say by how much a step may be longer where copies to the host meet messages of data parallelism.

    No price counts it, and no measured run that offloads across nodes tells it. Of a ring through all ranks
    the bytes leave a domain once for all its ranks.

    References
    ----------
    .. [1] NVIDIA, DGX H100/H200 System User Guide, "System Topology": an accelerator and its network card are
       on one PCIe switch, so that what the card reads of the accelerator takes that one's own link.
    """
    pool = answer.job.hardware.pool
    hosted = read_offload(OFFLOADS, answer.plan.offload).layers
    if not hosted or pool.accelerator.host_link is None or answer.job.gpus <= pool.scaleup_domain:
        return []
    inside = max(1.0, pool.scaleup_domain / float(answer.plan.tp * answer.plan.cp))
    most = answer.sent.dp / inside / pool.accelerator.host_link / answer.step
    if most < WORTH_TELLING:
        return []
    return [
        "Unproven: these copies may share the link to the host with messages to other nodes, which no price "
        f"counts: a step up to {percent(most, 0)} longer."
    ]
