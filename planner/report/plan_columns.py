"""The columns of plans: what each figure of an estimate is called, its unit, and how people read it.

Every table of plans picks from these: search, sweep, compare, estimate, explain and the pages of HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from planner.calibrate.releases import label_of
from planner.cost.estimate import Estimate
from planner.dataclasses import replace
from planner.inputs.bands import step_range
from planner.report.flat import flat_row
from planner.report.layout import layout_of
from planner.report.page import significant
from planner.report.view import Column, figure
from planner.units import percent

Record = Mapping[str, Any]

MEGAJOULE: Final = 1e6
FINE: Final = 0.01
"""Error band below which seconds keep four digits; three say enough above it. [-]"""


def money(usd: float | None) -> str:
    """Return dollars, or that there is no price."""
    return "no price known" if usd is None else f"${significant(usd)}"


def energy(joules: float | None) -> str:
    """Return megajoules, or that the rated power is not known."""
    return "no rated power known" if joules is None else f"{significant(joules / MEGAJOULE)} MJ"


def tenths(value: float | None) -> str:
    """Return a number with one decimal, a dash where it is unknown."""
    return "-" if value is None else f"{value:.1f}"


def whole(value: float | None) -> str:
    """Return a number without decimals, a dash where it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def _amount(digits: int) -> Any:
    return lambda value: significant(value, digits)


def banded(row: Record, unit: str = "") -> str:
    """Return the seconds of a step with as many digits as its band bears, and the band where it is known."""
    band, step = row["error_band"], row["step_time_s"]
    digits = 4 if band is not None and band < FINE else 3
    told = significant(step, digits) + unit
    if band is None:
        return told
    low, high = step_range(step, band)
    least = significant(low, digits)
    return f"{told} ({least}-{significant(high, digits)})" if math.isfinite(high) else f"{told} (> {least})"


def _within(row: Record) -> str:
    return f"{row['peak_gib']:.1f} of {row['capacity_gib']:.1f} GiB"


def _per_step(row: Record, digits: int = 4) -> str:
    """Return dollars with the mark of another seller's price, where they are known."""
    return _marked(row, row["cost_usd_per_step"], digits)


def _marked(row: Record, dollars: float | None, digits: int) -> str:
    lent = row.get("price_basis") == "accelerator"
    return significant(dollars, digits) + ("*" if lent and dollars is not None else "")


RANK: Final = Column("#", "", "rank", lambda row: row["rank"])
LAYOUT: Final = Column("layout", "", "tp", lambda row: layout_of(row))
WHERE: Final = Column("accelerators", "", "gpus", lambda row: f"{row['gpus']} {row['hardware']}")
RUNTIME: Final = Column(
    "runtime", "", "runtime", lambda row: " ".join(filter(None, (row["runtime"], row.get("release"))))
)
STEP: Final = figure("step_time_s", "s/step", "s", significant, "step", lambda s: f"{significant(s)} s")
STEP_BANDED: Final = replace(STEP, text=banded)
TOKENS: Final = figure(
    "tokens_per_s_per_gpu", "tokens/s on one", "token/s", whole, "tokens/s on one accelerator"
)
RATE: Final = figure(
    "model_tflops_per_gpu", "TFLOP/s on one", "TFLOP/s", tenths, "model TFLOP/s on one accelerator"
)
MFU: Final = figure("mfu", "MFU", "share", percent, "MFU (model FLOPs over dense peak)")
HFU: Final = figure("hfu", "HFU", "share", percent, "HFU (recompute counted)")
PEAK: Final = replace(
    figure("peak_gib", "GiB", "GiB", tenths), title="memory of the peak stage", titled=_within
)
RISK: Final = figure(
    "oom_probability", "out of memory", "share", percent, "probability of running out of memory"
)
BAND: Final = figure(
    "error_band", "error band", "share", percent,
    titled=lambda band: "never validated" if band is None else f"± {percent(band)}",
)  # fmt: skip
PER_STEP: Final = replace(
    Column("$/step", "USD", "cost_usd_per_step", _per_step, "cost of a step"),
    titled=lambda row: money(row["cost_usd_per_step"]),
)
ENERGY: Final = replace(
    figure(
        "energy_j_per_step", "MJ/step, at most", "J", lambda j: significant(j and j / MEGAJOULE),
        "energy of a step, at most", energy,
    )
)  # fmt: skip
DAYS: Final = figure(
    "days_to_train", "days", "day", _amount(3), "time to train", lambda days: f"{significant(days)} days"
)
TO_TRAIN: Final = Column(
    "$ to train", "USD", "cost_usd_to_train", lambda row: _marked(row, row["cost_usd_to_train"], 3),
    "cost to train", lambda row: money(row["cost_usd_to_train"]),
)  # fmt: skip
LIMITED: Final = figure("limited_by", "limited by", "", lambda words: words or "-")
SETTINGS: Final = figure("settings", "settings", "", lambda words: words or "-")


def dollars(records: Sequence[Record], digits: int = 4) -> list[Column]:
    """Return what a step or the training costs; a star marks another seller's price."""
    if records[0]["days_to_train"] is None:
        return [replace(PER_STEP, text=lambda row: _per_step(row, digits))]
    return [DAYS, TO_TRAIN]


def ranked(answers: Iterable[Estimate]) -> list[dict[str, Any]]:
    """Return the records of plans, the first with rank 1."""
    return [{"rank": str(rank)} | plan_record(answer) for rank, answer in enumerate(answers, 1)]


def plan_record(answer: Estimate) -> dict[str, Any]:
    """Return one plan as CSV has it, and what its runtime is called."""
    return flat_row(answer) | {"label": label_of(answer.runtime)}


def named_layout(several: bool, runtimes: bool) -> Column:
    """Return the column of layouts, after their cluster and runtime where there are several."""
    heads = [WHERE.text] * several + [lambda row: row["label"]] * runtimes
    return replace(LAYOUT, text=lambda row: " ".join([*(head(row) for head in heads), layout_of(row)]))
