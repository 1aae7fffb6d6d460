"""SWARM: the sites are stages of one pipeline, and activations go between them in eight bits."""

from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming


def between_stages(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of activations that micro-batches send while others compute."""
    return SyncTiming(1.0, (Send(0.0, 1.0),))


ENTRY = Sync(
    name="swarm",
    cite="arXiv:2301.11913",
    sends="activations and their gradients of each micro-batch, to the next site",
    hidden="the other micro-batches",
    timing=between_stages,
    penalty=Penalty("unknown", "8-bit activations and delayed updates, without a figure", "arXiv:2301.11913"),
    pattern="stages",
    inner=False,
    compress="int8",
)
