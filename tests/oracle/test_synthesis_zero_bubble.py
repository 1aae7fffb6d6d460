"""Synthesised schedules on the Zero Bubble paper's own times, against its searched ZB-1p and ZB-2p.

All 24 settings of Table 5 (arXiv:2401.10241): four models, three counts of micro-batches, the memory of 1F1B
and twice that. A bubble rate is idle time over the longest span of a rank.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from planner.formulas.pipeline import Pipe
from planner.search.synthesis.problem import OrderProblem
from planner.search.synthesis.synthesise import Synthesis, synthesise
from planner.simulate.record import ActivationBytes, memory_over_time, step_record
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Pipeline, play
from planner.techniques.schedules.family import PassTimes
from tests.deep import deep
from tests.oracle.test_schedules_zero_bubble import HALF_A_DIGIT, HIDDEN_HEADS, PRINTED, SEQ, Printed

BETWEEN = [
    ("1.5B", 8, 32, (0.1985, 0.0818, 0.1242, 0.0837, 0.0039)),
    ("6.2B", 8, 32, (0.1898, 0.0628, 0.1045, 0.0559, 0.0022)),
    ("14.6B", 16, 64, (0.2082, 0.0852, 0.1088, 0.0516, 0.0054)),
    ("28.3B", 32, 128, (0.2168, 0.1164, 0.1106, 0.0490, 0.0029)),
]
"""Lines of Table 5 whose bubbles alone are carried here, not the times of Table 9."""


def between(model: str, pp: int, m: int, rates: tuple[float, float, float, float, float]) -> Printed:
    """Return a line with the times that its printed 1F1B and ZB-H1 say, in units of F + B + W.

    Their bubbles are (p - 1) + 2c[(p - 1)m/p + p - 2] and (p - 1)(1 - 2W + 4c): two equations for c and W.
    How the rest divides into F and B is taken from the other lines of the model.
    """
    flushed, first = (m * rate / (1 - rate) for rate in (rates[0], rates[2]))
    hop = (flushed - (pp - 1)) / (2 * ((pp - 1) * m / pp + pp - 2))
    weight = (1 - first / (pp - 1) + 4 * hop) / 2
    shares = [line.times[0] / sum(line.times[:2]) for line in PRINTED if line.model == model]
    forward = (1 - weight) * sum(shares) / len(shares)
    return Printed(model, pp, m, (forward, 1 - weight - forward, weight, hop), rates)


LINES = [*PRINTED, *(between(*line) for line in BETWEEN)]


@dataclass(frozen=True)
class Setting:
    """One line with the memory of 1F1B, or twice that."""

    line: Printed
    times_memory: int

    @property
    def limit(self) -> float:
        return float(self.times_memory * self.line.pp)

    @property
    def printed(self) -> float:
        """Rate of ZB-1p, which is that of ZB-H1 in every line, or of ZB-2p."""
        return self.line.rates[2] if self.times_memory == 1 else self.line.rates[4]

    def rate(self, span: float) -> float:
        return self.line.rate(span - self.line.m * self.line.work)

    def made(self, seconds: float) -> Synthesis:
        ranks, m = range(self.line.pp), self.line.m
        problem = OrderProblem.uniform(ranks, self.line.pass_times, self.limit, m, "span")
        return synthesise([problem], time_limit=seconds, solver=None)


@pytest.fixture(autouse=True)
def _own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count limits in time of this process: what else the machine does changes no order."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)


LARGE = 256
"""Micro-batches with which a setting takes ten seconds."""

SETTINGS = [
    pytest.param(
        Setting(line, times_memory),
        id=f"{line.model}-{line.m}-{times_memory}p",
        marks=[pytest.mark.slow] if line.m == LARGE else [],
    )
    for line in LINES
    for times_memory in (1, 2)
]


def test_all_settings_are_there() -> None:
    assert len(SETTINGS) == 24
    assert set(HIDDEN_HEADS) == {line.model for line in LINES}
    assert SEQ == 1024


@pytest.mark.parametrize("line", LINES[8:], ids=[f"{line.model}-{line.m}" for line in LINES[8:]])
def test_times_from_two_printed_rates_give_the_third(line: Printed) -> None:
    """ZB-H2's printed bubble was not used to find the times; W weighs thrice in it, with its rounding."""
    bubble = SCHEDULES["zb-h2"].span_bubble_seconds(Pipe(line.pp, 1, line.m, *line.times))
    rate = line.rate(float(bubble))
    assert rate == pytest.approx(line.rates[3], abs=3 * HALF_A_DIGIT)


@pytest.mark.parametrize("setting", deep(SETTINGS[::3], SETTINGS))
def test_as_good_as_the_paper(setting: Setting) -> None:
    """By the simulation, within the limit by its account, and with a bound that no printed rate is below."""
    line = setting.line
    made = setting.made(60.0 if line.m == LARGE else 0.3)
    times = PassTimes(*line.times)
    timeline = play(made.orders, Pipeline.uniform(range(line.pp), times))
    span = step_record(timeline).longest_span
    assert span == pytest.approx(made.incumbent, rel=1e-9)
    assert setting.rate(span) <= setting.printed + HALF_A_DIGIT
    assert setting.rate(made.bound) <= setting.printed + HALF_A_DIGIT
    sizes = ActivationBytes((1.0,) * line.pp, (line.pass_times.kept_share,) * line.pp)
    held = [held for rank in range(line.pp) for _, held in memory_over_time(timeline, rank, sizes)]
    assert max(held) <= setting.limit + 1e-6


@pytest.mark.parametrize("line", LINES[:7], ids=[f"{line.model}-{line.m}" for line in LINES[:7]])
def test_zb_1p_is_proved_best(line: Printed) -> None:
    """The bound reaches the printed rate: no order within the memory of 1F1B has a smaller bubble."""
    made = Setting(line, 1).made(0.3)
    assert made.proved
    assert Setting(line, 1).rate(made.bound) == pytest.approx(line.rates[2], abs=HALF_A_DIGIT)
