"""EDiT: parameters are averaged layer by layer in the forward pass that follows the inner steps."""

from planner.techniques.sync.family import FORWARD, Penalty, Send, Sync, SyncTiming


def in_forward(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of an exchange that one forward pass hides, each layer's before it is needed."""
    return SyncTiming(float(steps), (Send(1.0, FORWARD * (layers - 1) / layers),))


ENTRY = Sync(
    name="edit",
    cite="arXiv:2412.07210",
    sends="each layer's change after the inner steps, in a ring all-reduce",
    hidden="one forward pass",
    timing=in_forward,
    penalty=Penalty("unknown", "no table found", "arXiv:2412.07210"),
    device_copies=2.0,
)
