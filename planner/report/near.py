"""What a search beside a recipe kept of it, what it changed, and what that costs."""

from __future__ import annotations

from typing import Any

from planner.cost.estimate import Estimate
from planner.report.layout import layout
from planner.report.page import significant
from planner.search.near import Near
from planner.search.ties import TIE
from planner.units import GIB, percent


def near_lines(found: Near, notes: tuple[str, ...] = ()) -> list[str]:
    """Return in words what was kept, why something had to change, and what the best plan costs."""
    lines = [f"{note.rstrip('.')}." for note in notes]
    if found.reason is None:
        lines.append("The recipe runs as it is: layout and settings are kept.")
    else:
        lines.append(f"The recipe as it is does not run here: {_reason(found)}.")
    lines += _format(found)
    changed = [f"{name.replace('_', ' ')} {was} -> {now}" for name, (was, now) in found.changed.items()]
    if found.reason is not None and found.result.plans:
        settings = "; settings are searched anew" if "settings" in found.freed else "; settings are kept"
        lines.append(f"Changed: {', '.join(changed) or 'the split alone'}{settings}.")
    if (cost := found.cost) is not None:
        best = found.free.plans[0]
        if cost > 1.0 + 1e-3:
            lines.append(
                f"With these settings and any layout: {significant(best.step, 4)} s by {layout(best.plan)}; "
                f"plan 1 takes {percent(cost - 1.0)} more."
            )
        else:
            lines.append("No other layout with these settings is faster.")
    return [" ".join(lines)]


def _format(found: Near) -> list[str]:
    """Say which number format stands in the place of the recipe's, and what it is worth."""
    if (known := found.format) is None:
        return []
    best = found.result.plans[0]
    chip = best.job.hardware.pool.accelerator.name
    lines = [f"Precision {known.was} -> {known.now}, since {chip} has no {known.was}: this changes numerics."]
    if known.now != "bf16" and known.plain_step is not None:
        gain = known.plain_step / best.step - 1.0
        more = f"{percent(abs(gain))} {'more' if gain > 0 else 'less'}" if abs(gain) > TIE else "as long"
        lines.append(f"Plan 1 takes {significant(known.plain_step, 4)} s in bf16, {more}.")
    return lines


def _reason(found: Near) -> str:
    """Return why the recipe is no answer, with its bytes where they are the cause."""
    known = found.recipe
    if isinstance(known, Estimate) and not known.violations:
        return f"{found.reason}, {known.peak / GIB:.1f} of {known.capacity / GIB:.0f} GiB"
    return str(found.reason)


def near_record(found: Near, file: str, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the same for scripts."""
    return {
        "file": file,
        "notes": list(notes),
        "runs_unchanged": found.reason is None,
        "reason": found.reason,
        "freed": list(found.freed),
        "changed": {name: {"was": was, "now": now} for name, (was, now) in found.changed.items()},
        "precision": None
        if found.format is None
        else {
            "was": found.format.was,
            "now": found.format.now,
            "bf16_step_time_s": found.format.plain_step,
        },
        "settings_kept": "settings" not in found.freed,
        "recipe_step_time_s": found.recipe.step if isinstance(found.recipe, Estimate) else None,
        "free_step_time_s": found.free.plans[0].step if found.free.plans else None,
        "times_free": found.cost,
    }
