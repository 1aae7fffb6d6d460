"""Replica groups agree on each step and leave out the one that fails; gradients between them go over TCP."""

from collections.abc import Iterator
from typing import Any

from planner.formulas.collectives import ring_sent_bytes
from planner.inputs.model import ModelSpec
from planner.techniques.recovery.family import WATCHED, Held, Recovery
from planner.units import GB

EXCHANGE_RATE = 1.0 * GB
"""At which one rank exchanges gradients between replicas over TCP: an estimate. [byte/s]"""

GROUPS = (2, 4, 8)
"""Replica groups that are tried. [-]"""


def _faults(held: Held) -> Iterator[str]:
    if held.plan.pp > 1:
        yield "keeps one part of the model together: no pipeline"
    if held.replicas < 2:
        yield "needs replicas of the whole state: --zero-shards below dp x cp"


def _healthy(held: Held) -> float:
    return held.step + 2 * float(ring_sent_bytes(held.gradient_bytes, held.replicas)) / EXCHANGE_RATE


def _layouts(gpus: int, per_node: int, model: ModelSpec) -> Iterator[dict[str, Any]]:
    """Yield plans with several replicas of the whole state."""
    for groups in GROUPS:
        if gpus % groups == 0 and gpus // groups > 1:
            yield {"zero_shards": gpus // groups}


ENTRY = Recovery(
    name="torchft",
    cite="https://github.com/meta-pytorch/torchft",
    level="peers",
    pause=WATCHED,
    faults=_faults,
    healthy=_healthy,
    mode_note="gradients between replicas at 1 GB/s a rank, an estimate",
    missing=lambda held: 1.0 / held.replicas,
    layouts=_layouts,
    runtimes=("torchtitan",),
    beside="torchft, and its lighthouse",
    aliases=("torch-ft",),
)
