"""Layers and recompute of each stage assigned, for the fastest of the plans that fit with another split alone."""

from __future__ import annotations

from planner.search.candidates import by_value
from planner.search.operators.assign import Assign

ENTRY = Assign("reassign", turn=5, cost=21, order=by_value, follows="uneven")
