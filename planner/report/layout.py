"""A plan in short words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.plan import MESH, Plan
from planner.techniques.schedules import PLAIN


def layout(plan: Plan) -> str:
    """Return a plan in short words, such as ``tp8 pp4 dp2 mb1 zero1 full``; what is 1 or none is left out."""
    return layout_of(plan.as_dict())


def layout_of(plan: Mapping[str, Any]) -> str:
    """Return the same of a plan's fields by name, as documents and CSV have them."""
    words = [f"{name}{plan[name]:.0f}" for name in MESH if plan[name] > 1]
    words += [f"dp{plan['dp']:.0f}", f"mb{plan['micro_batch']:.0f}", f"zero{plan['zero']}"]
    if plan["zero"] and plan["zero_shards"] != plan["dp"] * plan["cp"]:
        words.append(f"shards{plan['zero_shards']:.0f}")
    words += ["sp"] * plan["sequence_parallel"]
    words += [plan["cp_method"]] * (plan["cp"] > 1) + [plan["recompute"]] * (plan["recompute"] != "none")
    words += [plan["schedule"]] * (plan["pp"] > 1 and plan["schedule"] not in PLAIN)
    words += [f"offload-{plan['offload']}"] * (plan["offload"] != "none")
    return " ".join(words)
