"""What failures and checkpoints make of a plan: how often to save, and days and money with them."""

from __future__ import annotations

from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.slowed import STUCK, Slowed
from planner.dataclasses import dataclass
from planner.formulas.failures import checkpoint_interval_seconds, failure_slowdown, job_mtbf_seconds
from planner.report.as_json import Document, estimate_document, plain
from planner.report.estimate_page import adapter_lines, job_line, verdict
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.report.plan_columns import money
from planner.report.settings_line import settings_line
from planner.units import DAY, HOUR, percent

GOODPUT: Final = "planner/goodput/1"

SEEN_MTBF: Final = 54 * DAY * 16384 / 419
"""Mean time between failures that one H100 caused in 54 days of Llama 3 on 16,384 of them: 419 unexpected
interruptions (arXiv:2407.21783, sec. 3.3.4). [s]"""


@dataclass(frozen=True)
class Failing(Slowed):
    """A plan on machines that fail."""

    answer: Estimate
    """The plan without failures."""
    device_mtbf: float
    """Mean time between failures that one accelerator and its share of a node cause. [s]"""
    save: float
    restart: float
    """Time for which training stops to save, and from a failure until it goes on. [s]"""
    asked: float | None = None
    """Time of training between checkpoints; None asks for the best. [s]"""

    @property
    def mtbf(self) -> float:
        """Mean time between failures of the job. [s]"""
        return float(job_mtbf_seconds(self.device_mtbf, float(self.answer.job.gpus)))

    @property
    def steps(self) -> int:
        """Steps between checkpoints, at least one. [-]"""
        wanted = self.asked or float(checkpoint_interval_seconds(self.save, self.mtbf))
        return max(1, round(wanted / self.answer.step))

    @property
    def interval(self) -> float:
        """Time of training between checkpoints, in whole steps. [s]"""
        return self.steps * self.answer.step

    @property
    def gets_on(self) -> bool:
        """Whether the job is not so often stopped that it hardly ever reaches a checkpoint."""
        return (self.interval + self.save + self.restart) / self.mtbf < STUCK

    @property
    def slowdown(self) -> float:
        """Expected time over that of the steps alone. [-]"""
        return float(failure_slowdown(self.interval, self.save, self.restart, self.mtbf))

    @property
    def saving(self) -> float:
        """Share of the expected time spent saving. [-]"""
        return self.save / self.interval / self.slowdown


def goodput_page(told: Failing) -> Page:
    """Return a plan with its failures for people."""
    answer, bill, slow = told.answer, told.answer.bill, told.slowdown
    chosen = "as asked" if told.asked else "the best"
    spell = f"{significant(told.interval / 60)} min, {told.steps:,} steps"
    figures = {
        "one accelerator fails every": f"{significant(told.device_mtbf / HOUR)} h",
        "the job fails every": f"{significant(told.mtbf / HOUR)} h",
        f"checkpoint interval, {chosen}": spell,
        "time spent saving": percent(told.saving),
        "time lost to failures": percent(1 - 1 / slow - told.saving),
        "goodput, time spent training": percent(1 / slow),
        "MFU with failures": percent(answer.mfu / slow),
    }
    if told.failures_to_train is not None:
        days, alone = significant(told.days_to_train), significant(bill.days_to_train)
        figures |= {
            "failures until trained": f"{told.failures_to_train:,.0f}",
            "time to train": f"{days} days, {alone} without failures",
            "cost to train": money(told.usd_to_train),
        }
    table = Table(tuple({"figure": name, "value": value} for name, value in figures.items()))
    lines = adapter_lines(answer.job.workload.method)
    said = [f"Plan: {layout(answer.plan)}", *settings_line(answer)]
    page: Page = [job_line(answer.job, answer.runtime), *said, *verdict(answer)]
    return [*page, table, *lines, basis(told)]


def basis(told: Failing) -> str:
    """Say what the figures rest on."""
    seen = (
        "Accelerators fail as often as in Llama 3's training, 419 times in 54 days on 16,384 H100 "
        "(arXiv:2407.21783, sec. 3.3.4); --device-mtbf sets another rate. "
        if told.device_mtbf == SEEN_MTBF
        else ""
    )
    return (
        f"{seen}A failure costs {significant(told.restart)} s to restart and the work since the last "
        "checkpoint; spare nodes are assumed (J. T. Daly, doi:10.1016/j.future.2004.11.016)."
    )


def goodput_document(told: Failing) -> Document:
    """Return a plan with its failures as JSON."""
    slow = told.slowdown
    document: Document = plain(
        {
            "schema": GOODPUT,
            "device_mtbf_s": told.device_mtbf,
            "mtbf_s": told.mtbf,
            "checkpoint_time_s": told.save,
            "restart_time_s": told.restart,
            "interval_s": told.interval,
            "steps_between_checkpoints": told.steps,
            "saving_share": told.saving,
            "failures_share": 1 - 1 / slow - told.saving,
            "goodput": 1 / slow,
            "mfu": told.answer.mfu / slow,
            "failures_to_train": told.failures_to_train,
            "days_to_train": told.days_to_train,
            "cost_usd_to_train": told.usd_to_train,
            "estimate": estimate_document(told.answer, {}),
        }
    )
    return document
