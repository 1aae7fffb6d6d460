"""The doubt about a step that waits for a host whose time no measured run tells."""

from __future__ import annotations

from planner.cost.estimate import Estimate
from planner.report.limits import WORTH_TELLING
from planner.runtimes.eager import HOST, LAUNCH_SECONDS, LAYER_LAUNCHES


def unproven_host(answer: Estimate) -> list[str]:
    """Say that the host's time is counted, where a step waits for it and no run tests it, as a clause."""
    counted = answer.runtime.traits.host.layer_seconds == HOST["host_layer_seconds"]
    if not counted or answer.time.other < WORTH_TELLING * answer.step:
        return []
    each = f"{LAYER_LAUNCHES:g} launches of a layer at {LAUNCH_SECONDS * 1e6:g} µs"
    return [
        f"no measured run tests the host's time, {each} (5 to 25 by the code and the processor), so that the "
        "step may take half or twice as long"
    ]
