"""One estimate on one screen: time, memory, cost and how sure they are; ``estimate_page`` has the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.cost.memory.host_rules import HAS_LINK
from planner.cost.money import quote_of
from planner.dataclasses import replace
from planner.fields import ASKED_AXES
from planner.report.as_json import TIME_KEYS
from planner.report.estimate_page import (
    ENERGY_TO_TRAIN,
    MEMORY_WORDS,
    broken,
    energy_to_train,
    job_line,
    plan_lines,
    short_trust,
    time_words,
)
from planner.report.page import Page, Table, short_defaults
from planner.report.plan_columns import (
    DAYS,
    HFU,
    LIMITED,
    MFU,
    PEAK,
    PER_STEP,
    STEP,
    TO_TRAIN,
    TOKENS,
    banded,
    plan_record,
)
from planner.report.remedies import lacks_memory, remedies, remedy_end, remedy_table
from planner.report.unequal import short_lengths
from planner.report.unproven import unproven
from planner.report.view import figures
from planner.units import GIB, percent

LEAST_SHARE: Final = 0.0005
"""Share of a step from which a part of it is told. [-]"""

LEAST_MEMORY: Final = 0.05
"""Memory from which a part of it is told. [GiB]"""

LEAST_RISK: Final = 0.0005
"""Probability of running out of memory from which it is told. [-]"""

MOST_REMEDIES: Final = 4
"""Changes that are shown, of those that save memory."""

NEXT: Final = "Next: -v for stages, traffic and energy; --save FILE.yaml to emit or explain it."

RULES: Final = "Next: `planner search` without the axes ranks plans that run; -v for the price in full."

SEARCH: Final = "Next: `planner search` without the axes ranks plans that fit; -v for all of it."


def estimate_answer(answer: Estimate, defaults: Mapping[str, Any]) -> Page:
    """Return an estimate as a page of about 20 lines of 80 columns, at most 24 unless it breaks many rules.

    ``answer``: the plan and its price; ``defaults``: what was taken because nothing was given; neither they
    nor hints are told where it is empty.
    """
    axes = {axis.name for axis in ASKED_AXES}
    own = {name: value for name, value in defaults.items() if name not in axes}
    lines = [
        *short_trust(answer),
        *unproven(answer),
        "MFU counts frozen weights at two thirds." * (answer.job.workload.method != "full"),
        *short_defaults(own, "; axes as above" if len(own) < len(defaults) else ""),
        (SEARCH if lacks_memory(answer) else NEXT) * bool(defaults),
    ]
    plan = "\n".join(plan_lines(answer))
    if answer.violations:
        last = "\n".join(filter(None, [_if_run(answer), *short_defaults(own), RULES * bool(defaults)]))
        return [job_line(answer.job, answer.runtime), plan, *broken(answer), last]
    if lacks_memory(answer):
        changes, end = _remedies(answer)
        body: Page = [f"{plan}\n{_misfit(answer)}\n{_memory(answer)}", *changes]
        lines = [end, *lines]
    else:
        body = [plan, _figures(answer)]
        packed = short_lengths(answer)
        lines = [*packed, _time(answer), _memory(answer), *lines]
    last = "\n".join(filter(None, lines))
    return [job_line(answer.job, answer.runtime), *body, last]


def _figures(answer: Estimate) -> Table:
    record = plan_record(answer)
    columns = [
        replace(STEP, titled=lambda row: banded(row, " s")),
        TOKENS,
        MFU,
        *([HFU] if record["hfu"] > record["mfu"] else []),
        replace(PEAK, titled=lambda row: f"{PEAK.item(row)[1]}{_risk(answer)}"),
        LIMITED,
        replace(PER_STEP, titled=lambda row: f"{PER_STEP.item(row)[1]}{_at(answer)}"),
    ]
    if answer.bill.days_to_train is not None:
        columns += [DAYS, TO_TRAIN, ENERGY_TO_TRAIN]
    return figures(columns, record | {"energy_to_train": energy_to_train(answer)})


def _risk(answer: Estimate) -> str:
    risk = answer.oom_probability
    return f", {percent(risk)} risk of running out" if risk >= LEAST_RISK else ""


def _at(answer: Estimate) -> str:
    """Return the price that a step is counted by."""
    quote = quote_of(answer.job.hardware.pool)
    if quote is None:
        return ""
    told = [f"{quote.usd_per_hour:g} USD/h", *filter(None, (quote.seller, quote.day))]
    return f" ({', '.join(told)})"


def _time(answer: Estimate) -> str:
    """Return where the step goes, the largest part first."""
    words = time_words(answer)
    shares = {words[name].split(",")[0]: getattr(answer.time, name) / answer.step for name in TIME_KEYS}
    told = sorted((item for item in shares.items() if item[1] >= LEAST_SHARE), key=lambda item: -item[1])
    return f"Where the step goes: {', '.join(f'{name} {percent(share)}' for name, share in told)}."


def _memory(answer: Estimate) -> str:
    """Return what the fullest stage holds at its peak, the largest part first."""
    stage = max(answer.stages, key=lambda one: float(one.total))
    parts = {name: getattr(stage, name) / GIB for name in MEMORY_WORDS if name != "total"}
    told = sorted((item for item in parts.items() if item[1] >= LEAST_MEMORY), key=lambda item: -item[1])
    where = f"stage {stage.stage}, " * (len(answer.stages) > 1)
    return (
        f"GiB at the peak ({where}{stage.moment}): {', '.join(f'{name} {size:.1f}' for name, size in told)}."
    )


def _misfit(answer: Estimate) -> str:
    """Return by how much a plan does not fit, and what a step would take if it did."""
    record, over = plan_record(answer), (answer.peak - answer.capacity) / GIB
    return (
        f"Does not fit: it needs {PEAK.item(record)[1]}, {over:.1f} too much. "
        f"If it did fit, a step would take {banded(record, ' s')} at {percent(record['mfu'])} MFU."
    )


def _if_run(answer: Estimate) -> str:
    """Return what a plan that breaks rules would take if it ran all the same."""
    record, broken = plan_record(answer), {violation.rule for violation in answer.violations}
    copies = " beside its copies to the host, whose time is not known" * (HAS_LINK in broken)
    return (
        f"If it ran all the same, a step would take {banded(record, ' s')} at {percent(record['mfu'])} MFU "
        f"and {PEAK.item(record)[1]}{copies}."
    )


def _remedies(answer: Estimate) -> tuple[Page, str]:
    """Return changes that are enough alone, then those that save most; and the cheapest few together."""
    found = remedies(answer)
    best = sorted(found.single, key=lambda one: (not one.fits, -one.saves))[:MOST_REMEDIES]
    shown = tuple(one for one in found.single if one in best)
    return (remedy_table(replace(found, single=shown)), remedy_end(found, answer)) if shown else ([], "")
