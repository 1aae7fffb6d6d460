"""Measured runs that differ in one setting alone are priced in their order, or no such runs exist."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.defaults import PricedRun
from planner.cost.settings import measured_settings, settings_run, where
from planner.techniques.settings import SETTINGS
from tests.helpers import ROOT
from tests.measured.matched import known_prices, timed

PAGE = ROOT / "docs" / "explanation" / "search.md"
TABLE = re.compile(
    r"(?<=<!-- pairs: written by their test with --update-golden -->\n).*?(?=<!-- end of pairs -->)",
    re.DOTALL,
)
APART = 0.02
"""Share by which measured times must differ to have an order. [-]"""


@dataclass(frozen=True)
class Pair:
    """Runs of one job and layout with two values of a setting: how much longer the second took."""

    setting: str
    measured: float
    priced: float

    @property
    def right(self) -> bool:
        return (self.measured > 1.0) == (self.priced > 1.0)


def words_of(run: PricedRun) -> dict[str, str]:
    """Return the settings that decide anything of a run: those of its runtime, and whether it is compiled."""
    runtime = replace(run.runtime, searched=tuple(dict.fromkeys((*run.runtime.searched, "compiled"))))
    told = (one.split(" ", 1) for one in settings_run(run.plan, run.job, runtime))
    return {name: value for name, value in told}


def group_of(run: PricedRun) -> Hashable:
    """Return all that two runs must share beside their settings."""
    job, work = run.job, run.job.workload
    same = work.seq_len, work.global_batch, work.precision, work.method, work.document_tokens
    place = job.hardware.pool.accelerator.name, job.hardware.name, job.gpus
    return run.run.source, run.era, run.release, job.model.name, job.model.params, place, same, run.plan


@cache
def pairs() -> tuple[Pair, ...]:
    runs = timed()
    groups: dict[Hashable, dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for run, price in zip(runs, known_prices(runs), strict=True):
        if not isinstance(price, Prediction) or not run.measured.seconds:
            continue
        own = words_of(run)
        for name, value in own.items():
            others = tuple((other, word) for other, word in own.items() if other != name)
            values = groups.setdefault((group_of(run), others), {}).setdefault(name, defaultdict(list))
            values[value].append((run.measured.seconds, price.step_s))
    found = []
    for settings in groups.values():
        for name, values in settings.items():
            means = [np.mean(times, axis=0) for times in values.values()]
            for first, second in combinations(means, 2):
                measured, priced = second / first
                if abs(measured - 1.0) > APART:
                    found.append(Pair(name, float(measured), float(priced)))
    return tuple(found)


def pair_table() -> str:
    lines = "| setting | pairs | in their order | measured, priced | runs that have a value |\n"
    lines += "| --- | ---: | ---: | --- | --- |\n"
    for name, setting in SETTINGS.items():
        own = [pair for pair in pairs() if pair.setting == name]
        told = ", ".join(f"{pair.measured:.2f} {pair.priced:.2f}" for pair in own[:3])
        known = "; ".join(f"{value}: {runs}" for value, runs in (setting.evidence or {}).items())
        right = str(sum(pair.right for pair in own)) if own else "-"
        lines += f"| `{name}` | {len(own)} | {right} | {told or '-'} | {known or 'none: called unproven'} |\n"
    return lines


def test_runs_that_differ_in_one_setting_are_priced_in_their_order() -> None:
    known = {name: [pair.right for pair in pairs() if pair.setting == name] for name in SETTINGS}
    assert {"async_tp", "compiled", "float8_scales", "expert_overlap", "tp_overlap"} <= {
        name for name, right in known.items() if right
    }
    assert sum(map(len, known.values())) >= 14
    assert all(all(right) for right in known.values())


def test_settings_of_measured_runs_are_all_counted() -> None:
    """Else a band is widened for want of runs that there are: ``python -m tests.published_jobs --kinds``."""
    runs = [run for run in timed() if not run.run.oom]
    found = {
        (where(run.job, run.runtime), one)
        for run in runs
        for one in settings_run(run.plan, run.job, run.runtime)
    }
    assert found <= set(measured_settings())
    assert {one.partition(" ")[0] for _, one in measured_settings()} <= set(SETTINGS)


def test_the_page_says_for_each_setting_which_runs_there_are(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        text = TABLE.sub(lambda _: pair_table(), text)
        PAGE.write_text(text, encoding="utf-8")
    found = TABLE.search(text)
    assert found is not None
    assert found[0] == pair_table(), "add --update-golden and read the diff"
