"""ZB-1p: searched order within the activations of 1F1B; it comes out as good as ZB-H1."""

from __future__ import annotations

from planner.dataclasses import replace
from planner.techniques.schedules import zb_h1
from planner.techniques.schedules._sweep import shortest_order
from planner.techniques.schedules.family import UNIT, Orders, PassTimes


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Search an order for these pass times."""
    return shortest_order(pp, microbatches, times, limit=pp)


ENTRY = replace(zb_h1.ENTRY, name="zb-1p", aliases=("zb1p",), cite="arXiv:2401.10241, sec. 3", order=order)
