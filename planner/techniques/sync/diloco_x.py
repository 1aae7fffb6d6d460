"""DiLoCoX: pipelined replicas, an exchange one period late, low rank and low bits."""

from planner.techniques.sync.family import Penalty, Sync, period_late

ENTRY = Sync(
    name="diloco-x",
    cite="arXiv:2506.21263",
    sends="the compressed change of all parameters after the inner steps, in a ring all-reduce",
    hidden="the next inner steps, all of them",
    timing=period_late,
    penalty=Penalty("unknown", "none printed with its setting", "arXiv:2506.21263"),
    device_copies=4.0,
    compress="int4",
    aliases=("dilocox",),
)
