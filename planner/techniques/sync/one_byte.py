"""Just One Byte: zeroth-order steps, whose replicas share the seeds and send a byte for each direction."""

from typing import Final

from planner.formulas.partial_training import seeded_step_bytes
from planner.inputs.model import ModelSpec
from planner.techniques.compress.family import FULL
from planner.techniques.sync.family import Parts, Penalty, Send, Sync, SyncTiming

PASSES: Final = 3.0
"""Passes over a parameter in memory that a direction takes: to perturb, to undo, to step. [-]"""
WEIGHT: Final = 2.0
"""Size of a weight there. [byte/element]"""
FORWARDS: Final = 2.0 / 3.0
"""Two forward passes over a forward and a backward one. [-]"""


def each_step(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of a byte at each step, for which all wait."""
    return SyncTiming(1.0, (Send(1.0, 0.0),))


def a_byte(model: ModelSpec, replicas: int) -> Parts:
    """Return that a byte goes, nothing has gradients, and all directions of all replicas are drawn anew."""
    sent = float(seeded_step_bytes(2.0, 1.0)) / (FULL * float(model.params))
    return Parts(sent=sent, trained=0.0, touched=PASSES * WEIGHT * replicas)


ENTRY = Sync(
    name="one-byte",
    cite="arXiv:2306.10015",
    sends="a byte for the direction of each replica at every step, gathered by all",
    hidden="nothing: all wait",
    timing=each_step,
    penalty=Penalty("unknown", "zeroth-order fine-tuning, proof of concept without a table; many more steps",
                    "arXiv:2306.10015"),
    pattern="gather",
    inner=False,
    work=FORWARDS,
    parts=a_byte,
    aliases=("zeroth-order",),
)  # fmt: skip
