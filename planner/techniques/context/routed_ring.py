"""Routed ring: a part that goes to the next node is spread over the ports of all its ranks.

Bytes are a ring's; those between nodes also cross the fast links of both (Zeppelin's routing layer).
"""

from planner.dataclasses import replace
from planner.formulas.messages import routed_shift_seconds
from planner.techniques.context import ring

ENTRY = replace(
    ring.ENTRY,
    name="routed-ring",
    cite="arXiv:2509.21841",
    seconds=routed_shift_seconds,
    aliases=("zeppelin", "zeppelin-ring"),
)
