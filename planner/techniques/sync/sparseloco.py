"""SparseLoCo: the largest changes of each chunk in two bits, gathered by all, the rest kept for later."""

from planner.techniques.sync.family import Penalty, Sync, blocking

ENTRY = Sync(
    name="sparseloco",
    cite="arXiv:2508.15706",
    sends="the largest 1% of the change with their places after the inner steps, gathered by all",
    hidden="nothing: all wait",
    timing=blocking,
    penalty=Penalty("unknown", "better than DiLoCo at 1 to 3% density; none against data parallelism",
                    "arXiv:2508.15706, abstract"),
    device_copies=1.0,
    compress="topk",
)  # fmt: skip
