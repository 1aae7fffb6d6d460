"""A-EDiT: EDiT that synchronises by the clock, so that no replica waits for a slower one."""

from planner.techniques.sync.edit import in_forward
from planner.techniques.sync.family import Penalty, Sync

ENTRY = Sync(
    name="a-edit",
    cite="arXiv:2412.07210",
    sends="each layer's change after a set time, in a ring all-reduce",
    hidden="one forward pass",
    timing=in_forward,
    penalty=Penalty("unknown", "no table found", "arXiv:2412.07210"),
    device_copies=2.0,
    waits=False,
)
