"""Zero Bubble's measured steps from its own pass times: what closed forms of schedules alone are good for."""

from __future__ import annotations

import numpy as np

from planner.techniques.schedules import SCHEDULES
from tests.measured.matched import priced
from tests.oracle.test_schedules_zero_bubble import LAYERS, PRINTED, Printed

PROFILED = {(line.model, line.m): line for line in PRINTED}


def printed_seconds(line: Printed, schedule: str) -> float:
    """Seconds of a step whose stages take the printed times, and wait for two messages at each chunk."""
    vpp = (LAYERS[line.model] + 2) // line.pp if schedule == "interleaved-1f1b" else 1
    forward, gradient, weight, hop = line.times
    waiting = 2 * vpp * hop
    bubble = SCHEDULES[schedule].span_bubble_seconds(
        line.pp, vpp, line.m, forward, gradient + waiting, weight, 0.0
    )
    return float(line.m * (line.work + waiting) + bubble) / 1e3


def test_steps_follow_from_pass_times_and_one_factor() -> None:
    """Tables 4 and 9: steps are 7% longer than their passes say, by any schedule, within 1.6% in the mean."""
    logs = []
    for run, _ in priced():
        line = PROFILED.get((run.run.model, int(run.plan.num_microbatches)))
        if run.run.source == "zero-bubble" and line:
            logs.append(np.log((run.measured.seconds or 1.0) / printed_seconds(line, run.plan.schedule)))
    assert len(logs) == 32
    factor = np.median(logs)
    assert np.exp(factor) == np.clip(np.exp(factor), 1.05, 1.08)
    assert np.mean(np.abs(np.expm1(np.array(logs) - factor))) < 0.016
