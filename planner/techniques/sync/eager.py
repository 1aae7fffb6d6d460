"""Eager updates: DiLoCo whose exchange lasts a whole outer period, with the replica's own change at once."""

from planner.techniques.sync.family import LAW, Penalty, Sync, period_late

ENTRY = Sync(
    name="eager",
    cite="arXiv:2502.12996",
    sends="the change of all parameters after the inner steps, in a ring all-reduce",
    hidden="the next inner steps, all of them",
    timing=period_late,
    penalty=Penalty("law", "close to DiLoCo at H = 30, so DiLoCo's laws", LAW),
    device_copies=2.0,
    host_copies=1.0,
    passing_copies=2.0,
)
