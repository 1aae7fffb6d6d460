"""Any split, and no more recompute than must be, of the fastest that fit with another split alone."""

from planner.search.candidates import by_value
from planner.search.operators.assign import Assign

ENTRY = Assign("reassign", turn=5, cost=21, order=by_value, follows="uneven")
