"""SkipPipe: each micro-batch visits some of the stages only, in an order that avoids waits."""

from typing import Final

from planner.formulas.partial_training import visited_share
from planner.techniques.sync.family import Penalty, Sync
from planner.techniques.sync.swarm import between_stages

VISITED: Final = 4.0
"""Stages that a micro-batch visits in the authors' own setting. [-]"""
OF: Final = 6.0
"""Stages there. [-]"""

ENTRY = Sync(
    name="skippipe",
    cite="arXiv:2502.19913",
    sends="activations and their gradients of each micro-batch, between four of six stages",
    hidden="the other micro-batches",
    timing=between_stages,
    penalty=Penalty("range", "skips a third of the compute; perplexity 7% higher with half of the stages, "
                    "2% with three quarters, 500M to 1.5B", "arXiv:2502.19913"),
    pattern="stages",
    inner=False,
    work=float(visited_share(VISITED, OF)),
)  # fmt: skip
