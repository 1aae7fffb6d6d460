"""Streaming DiLoCo: fragments of three layers take turns, each used some inner steps after it is sent."""

from planner.techniques.sync.family import LAW, Penalty, Sync, streamed

ENTRY = Sync(
    name="streaming",
    cite="arXiv:2501.18512",
    sends="one fragment's change at a time, each once in the inner steps, in a ring all-reduce",
    hidden="the next one to five inner steps",
    timing=streamed,
    penalty=Penalty("law", "none at 1B with 2 replicas; those of DiLoCo for more", LAW),
    device_copies=1.0,
    host_copies=1.0,
    passing_copies=2.0,
    delays=(1, 2, 3, 4, 5),
    runners={"torchtitan": "diloco"},
    aliases=("streaming-diloco",),
)
