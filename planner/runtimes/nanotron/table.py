"""Keys and words of nanotron that stand for one axis each: written into configs, read by ``--from``."""

from __future__ import annotations

from typing import Final

from planner.plan import Plan

DEGREES: Final = {
    "dp": "dp",
    "pp": "pp",
    "tp": "tp",
    "cp": "context_parallel_size",
    "ep": "expert_parallel_size",
}
"""The key of each degree of a plan in the section ``parallelism``."""

ENGINES: Final = {"1f1b": "1f1b", "gpipe": "afab"}
"""``pp_engine`` of each schedule."""

MODES: Final = {False: "ALL_REDUCE", True: "REDUCE_SCATTER"}
"""``tp_mode`` without and with sequence parallelism."""


def degree_keys(plan: Plan) -> dict[str, int]:
    """Return the keys of all degrees with their values, for a scalar plan."""
    return {key: int(getattr(plan, name)) for name, key in DEGREES.items()}
