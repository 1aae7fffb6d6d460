"""How large a model for a budget, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.cost.money import quote_of
from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, counted, listed, significant
from planner.report.plan_columns import money
from planner.search.budget import Budget, Sized, Sizing
from planner.units import percent

BUDGET: Final = "planner/budget/1"

SHOWN: Final = 9
"""Sizes of a page that fits on a screen, those nearest to the best. [-]"""


def budget_page(found: Sizing, defaults: Mapping[str, Any]) -> Page:
    """Return the sizes of a budget for people, the answer first."""
    best = found.best
    if best is None:
        return [f"No size fits: {found.too_large[0]} is the smallest that was tried."]
    job, sizes = best.answer.job, list(found.sizes)
    place = sizes.index(best)
    first = max(0, min(place - SHOWN // 2, len(sizes) - SHOWN))
    head = (
        f"{job.model.name} ({significant(best.params / 1e9, 3)} B parameters) on "
        f"{significant(best.tokens / 1e9, 4)} B tokens: {significant(best.days, 3)} days"
        f"{'' if best.usd is None else f', {money(best.usd)}'} on {counted(job.gpus, 'accelerator')} of "
        f"{job.hardware.name}, within {spent(found.budget)}"
    )
    table = Table(tuple(_row(one, one is best) for one in sizes[first : first + SHOWN]))
    return [head, table, "\n".join(_told(found, best, defaults))]


def spent(budget: Budget) -> str:
    """Return what may be spent in words."""
    parts = [f"{budget.flops:.3g} FLOPs"] if budget.flops is not None else []
    parts += [money(budget.usd)] if budget.usd is not None else []
    parts += [f"{budget.days:g} days"] if budget.days is not None else []
    return " and ".join(parts)


def _row(one: Sized, best: bool) -> dict[str, str]:
    loss = one.loss
    return {
        "": "*" if best else "",
        "size": one.answer.job.model.name,
        "B tokens": significant(one.tokens / 1e9, 4),
        "per param": significant(one.tokens / one.params, 3),
        **({} if loss is None else {"loss": f"{loss:.4f}"}),
        "days": significant(one.days, 3),
        "MFU": percent(one.answer.mfu),
        "layout": layout(one.answer.plan),
    }


def _told(found: Sizing, best: Sized, defaults: Mapping[str, Any]) -> list[str]:
    """Say what the usual rule would have chosen, what the law is, and what was left out."""
    lines = [_against_peak(found, best)] if found.budget.flops is None else []
    limits = [found.budget.flops, found.budget.usd, found.budget.days]
    if sum(one is not None for one in limits) > 1:
        lines.append(f"The {best.binding} run out first.")
    lines.append(f"Law: {found.law.said} ({found.law.cite}).")
    if found.is_at_edge:
        lines.append("The best size is at the end of those tried: a further one may be better.")
    if found.too_large:
        lines.append(f"Without a plan that fits: {', '.join(found.too_large)}.")
    if any(one.answer.job.model.expert_kinds for one in found.sizes):
        lines.append("Experts count by the parameters a token uses; the law was fitted to dense models.")
    quote = quote_of(best.answer.job.hardware.pool)
    lines += [f"Prices: {quote.text}."] if quote is not None else []
    return [*lines, *([f"Defaults used: {listed(defaults)}."] if defaults else [])]


def _against_peak(found: Sizing, best: Sized) -> str:
    """Say what the law would choose where nobody asks which speed is reached, and how long that takes."""
    achieved = best.answer.mfu
    longer = best.days * (found.at_peak / best.params) ** 2
    return (
        f"At the full peak the law would choose {significant(found.at_peak / 1e9, 3)} B parameters; "
        f"{percent(achieved)} of it is reached, and that size at the same tokens for each parameter would "
        f"take about {significant(longer, 3)} days."
    )


def budget_document(found: Sizing) -> Document:
    """Return the sizes of a budget as JSON."""
    best, law = found.best, found.law
    document: Document = plain(
        {
            "schema": BUDGET,
            "budget": {
                "flops": found.budget.flops,
                "usd": found.budget.usd,
                "days": found.budget.days,
            },
            "law": {
                "name": law.name,
                "source": law.cite,
                "tokens_per_param": law.tokens_per_param,
                "constants": None if law.fit is None else law.fit._asdict(),
            },
            "at_peak": {"flops": found.peak_flops, "params": found.at_peak},
            "best": None if best is None else _record(best),
            "sizes": [_record(one) for one in found.sizes],
            "at_edge": found.is_at_edge,
            "without_plan": list(found.too_large),
            "estimate": None if best is None else estimate_document(best.answer, {}),
        }
    )
    return document


def budget_rows(found: Sizing) -> list[dict[str, Any]]:
    """Return the sizes as rows with the same keys."""
    return [plain(_record(one)) for one in found.sizes]


def _record(one: Sized) -> dict[str, Any]:
    return {
        "model": one.answer.job.model.name,
        "params": one.params,
        "tokens": one.tokens,
        "tokens_per_param": one.tokens / one.params,
        "loss": one.loss,
        "flops": one.flops,
        "days": one.days,
        "cost_usd": one.usd,
        "ends_by": one.binding,
        "mfu": one.answer.mfu,
        "step_time_s": one.answer.step,
        "layout": layout(one.answer.plan),
    }
