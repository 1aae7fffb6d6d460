"""Replica groups agree on each step and leave out the one that fails; gradients between them go over TCP."""

from planner.techniques.recovery._family import WATCHED, Recovery
from planner.units import GB

ENTRY = Recovery(
    name="torchft",
    cite="https://github.com/meta-pytorch/torchft",
    level="peers",
    pause=WATCHED,
    replicas=True,
    exchange_rate=1.0 * GB,
    runtimes=("torchtitan",),
    aliases=("torch-ft",),
)
