"""Stages over sites: one pipeline whose stages lie at the sites, with its usual schedule."""

from planner.techniques.sync.family import EXACT, Send, Sync, SyncTiming


def each_micro_batch(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of messages between stages, which the schedule of the pipeline decides."""
    return SyncTiming(1.0, (Send(0.0, 0.0),))


ENTRY = Sync(
    name="stages",
    cite="arXiv:2104.04473",
    sends="activations and their gradients of each micro-batch, to the stage at the next site",
    hidden="what the schedule of the pipeline leaves between passes",
    timing=each_micro_batch,
    penalty=EXACT,
    pattern="pipeline",
    inner=False,
    runners={"torchtitan": "", "megatron-lm": "", "megatron-bridge": ""},
    aliases=("pipeline", "pp"),
)
