"""NoLoCo: after the inner steps replicas meet in random pairs, with no collective over all of them."""

from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming


def in_pairs(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of changes for which the pair waits, and of slow weights that go after them."""
    return SyncTiming(float(steps), (Send(1.0, 0.0), Send(1.0, float(steps))))


ENTRY = Sync(
    name="noloco",
    cite="arXiv:2506.10911",
    sends="the change of all parameters, and the slow weights, to one random peer after the inner steps",
    hidden="slow weights behind the inner steps, changes behind nothing",
    timing=in_pairs,
    penalty=Penalty("range", "perplexity 3% to 34% above FSDP's at equal steps, 125M to 6.8B",
                    "arXiv:2506.10911, table 2"),
    pattern="pair",
    device_copies=2.0,
)  # fmt: skip
