"""Data parallelism across sites: gradients are summed at every step, behind the backward pass."""

from planner.techniques.sync.family import BACKWARD, EXACT, Send, Sync, SyncTiming


def every_step(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of gradients that go layer by layer while backward runs."""
    return SyncTiming(1.0, (Send(1.0, BACKWARD),))


ENTRY = Sync(
    name="ddp",
    cite="arXiv:2006.15704",
    sends="all gradients at every step, in a ring all-reduce",
    hidden="the backward pass",
    timing=every_step,
    penalty=EXACT,
    inner=False,
    runners={"torchtitan": "", "megatron-lm": "", "megatron-bridge": ""},
    aliases=("data-parallel", "dp"),
)
