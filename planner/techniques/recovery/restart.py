"""The job ends, is queued and started again, and loads its last checkpoint."""

from planner.techniques.recovery.family import ENVIRONMENT, NCCL_TIMEOUT, QUEUE, Recovery

ENTRY = Recovery(
    name="restart",
    cite="arXiv:2401.00134",
    level="storage",
    pause=NCCL_TIMEOUT + QUEUE + ENVIRONMENT,
    aliases=("requeue",),
)
