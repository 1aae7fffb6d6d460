"""Plans side by side: their figures, and which terms make up the difference in time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planner.calibrate.releases import label_of
from planner.cost.estimate import Estimate, StageBytes
from planner.dataclasses import dataclass
from planner.report.as_json import STAGE_KEYS, TIME_KEYS, WORKLOAD, Document, estimate_document, plain
from planner.report.estimate_page import TIME_WORDS, job_line
from planner.report.layout import layout
from planner.report.limits import limits
from planner.report.longest import longest_sequence
from planner.report.page import Page, Table, significant
from planner.report.settings_line import settings_line
from planner.units import GIB, TFLOP, percent

COMPARE: Final = "planner/compare/1"

SAID: Final = 0.005
"""Share of the first plan's step from which a term is said to make a difference."""


@dataclass(frozen=True)
class NamedPlan:
    """A priced plan and what the user calls it."""

    name: str
    answer: Estimate


NOISE: Final = 1e-9
"""Share of a step below which a term is a rounding error."""

Figure = Callable[[Estimate], str]

FIGURES: Final[dict[str, Figure]] = {
    "fits": lambda a: "yes" if a.feasible else "breaks a rule" if a.violations else "no",
    "s/step": lambda a: significant(a.step),
    "tokens/s in all": lambda a: f"{a.tokens_per_second * a.job.gpus:,.0f}",
    "tokens/s on one": lambda a: f"{a.tokens_per_second:,.0f}",
    "TFLOP/s on one": lambda a: f"{a.model_rate / TFLOP:.1f}",
    "MFU": lambda a: percent(a.mfu),
    "HFU": lambda a: percent(a.hfu),
    "GiB, peak stage": lambda a: f"{a.peak / GIB:.1f}",
    "GiB of the device": lambda a: f"{a.capacity / GIB:.1f}",
    "longest sequence": lambda a: _tokens(longest_sequence(a)),
    "chance out of memory": lambda a: percent(a.oom_probability),
    "$/step": lambda a: significant(a.bill.usd_per_step),
    "MJ/step, at most": lambda a: significant(a.bill.joules_per_step and a.bill.joules_per_step / 1e6),
    "days to train": lambda a: significant(a.bill.days_to_train),
    "$ to train": lambda a: significant(a.bill.usd_to_train),
    "error band": lambda a: percent(a.error_band),
    "limited by": lambda a: ", ".join(limits(a)),
}
"""What each figure is called, and how it is told."""


def _tokens(count: int | None) -> str:
    return "none" if count is None else f"{count:,}"


def compare_page(plans: Sequence[NamedPlan]) -> Page:
    """Return plans side by side, the differences to the first explained term by term."""
    first = plans[0]
    page: Page = [
        "\n".join(
            f"{plan.name}: {job_line(plan.answer.job, plan.answer.runtime)}; {layout(plan.answer.plan)}"
            + "".join(f". {line}" for line in settings_line(plan.answer)).rstrip(".")
            for plan in plans
        )
    ]
    page.append(
        _table("", {name: [figure(plan.answer) for plan in plans] for name, figure in FIGURES.items()}, plans)
    )
    page += [
        f"{plan.name} breaks {broken.rule}: {broken.found}; expected {broken.expected}."
        for plan in plans
        for broken in plan.answer.violations
    ]
    page.append("Seconds of a step by cause:")
    rows = {
        TIME_WORDS[key]: [_seconds(getattr(plan.answer.time, key), plan.answer) for plan in plans]
        for key in TIME_KEYS
    }
    page.append(_table("term", _said(rows, {"0"}), plans))
    page.append("GiB of the peak stage:")
    memory = {
        name: [f"{getattr(fullest(plan.answer), name) / GIB:.2f}" for plan in plans] for name in STAGE_KEYS
    }
    page.append(_table("part", _said(memory, {"0.00"}), plans))
    page += [difference(first, other) for other in plans[1:]]
    page.append(
        "MFU counts what the model needs (causal attention, no recompute) over the dense peak of each plan's "
        "own precision and device; HFU adds what is recomputed."
    )
    return page


def _seconds(seconds: float, answer: Estimate) -> str:
    """Return the seconds of a term; what rounding leaves is nothing."""
    return significant(seconds if seconds > NOISE * answer.step else 0.0)


def fullest(answer: Estimate) -> StageBytes:
    """Return the memory of the stage with the most in use."""
    return max(answer.stages, key=lambda stage: stage.total)


def _said(rows: dict[str, list[str]], nothing: set[str]) -> dict[str, list[str]]:
    return {name: values for name, values in rows.items() if set(values) - nothing}


def _table(head: str, rows: dict[str, list[str]], plans: Sequence[NamedPlan]) -> Table:
    names = [plan.name for plan in plans]
    return Table(
        tuple(
            {head or "figure": name} | dict(zip(names, values, strict=True))
            for name, values in rows.items()
            if set(values) != {"-"}
        ),
        side_by_side=True,
    )


def differences(first: Estimate, other: Estimate) -> dict[str, float]:
    """Return what each term adds to the other's step over the first's; they add up. [s]"""
    return {key: getattr(other.time, key) - getattr(first.time, key) for key in TIME_KEYS}


def difference(first: NamedPlan, other: NamedPlan) -> str:
    """Return in words why one plan's step and memory differ from the first's."""
    a, b = first.answer, other.answer
    terms = sorted(differences(a, b).items(), key=lambda item: -abs(item[1]))
    told = [f"{TIME_WORDS[key]} {seconds:+.4g} s" for key, seconds in terms if abs(seconds) >= SAID * a.step]
    parts = {key: (getattr(fullest(b), key) - getattr(fullest(a), key)) / GIB for key in STAGE_KEYS
             if key not in ("allocated", "total")}  # fmt: skip
    kept = [
        f"{key} {gib:+.1f}"
        for key, gib in sorted(parts.items(), key=lambda item: -abs(item[1]))
        if abs(gib) >= 0.5
    ]
    head = f"{other.name} against {first.name}: {b.step / a.step - 1:+.1%} time"
    return (
        f"{head} ({'; '.join(told) or 'no term differs'}); "
        f"{(b.peak - a.peak) / GIB:+.1f} GiB ({', '.join(kept) or 'no part differs'}).{_unlike(a, b)}"
    )


def _unlike(a: Estimate, b: Estimate) -> str:
    """Say which of model, cluster, batch or runtime is not the same: then more than the plan differs."""
    unlike = [name for name in WORKLOAD if getattr(a.job.workload, name) != getattr(b.job.workload, name)]
    unlike += ["model"] * (a.job.model != b.job.model)
    unlike += ["runtime"] * (label_of(a.runtime) != label_of(b.runtime))
    unlike += ["cluster"] * (a.job.hardware.name != b.job.hardware.name)
    unlike += ["gpus"] * (a.job.gpus != b.job.gpus)
    return f" Not the same job: {', '.join(unlike)}." if unlike else ""


def compare_document(plans: Sequence[NamedPlan]) -> Document:
    """Return a comparison as JSON; differences are to the first plan."""
    first = plans[0].answer
    document: Document = plain(
        {
            "schema": COMPARE,
            "plans": [{"name": plan.name} | estimate_document(plan.answer, {}) for plan in plans],
            "differences": [
                {
                    "name": plan.name,
                    "step_time_s": plan.answer.step - first.step,
                    "share": plan.answer.step / first.step - 1,
                    "time_s": differences(first, plan.answer),
                    "peak_gib": (plan.answer.peak - first.peak) / GIB,
                }
                for plan in plans[1:]
            ],
        }
    )
    return document
