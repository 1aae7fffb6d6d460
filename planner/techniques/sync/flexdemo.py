"""FlexDeMo: at each step the largest DCT coefficients of the momentum are gathered, the rest stays local."""

from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming


def at_each_step(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of an exchange at each step that nothing hides."""
    return SyncTiming(1.0, (Send(1.0, 0.0),))


ENTRY = Sync(
    name="flexdemo",
    cite="arXiv:2502.06728",
    sends="32 coefficients of each chunk of 64 x 64 momenta at every step, gathered by all",
    hidden="nothing: all wait",
    timing=at_each_step,
    penalty=Penalty("unknown", "no table found", "arXiv:2502.06728"),
    pattern="gather",
    device_copies=1.0,
    inner=False,
    compress="dct",
    aliases=("detonation",),
)
