"""What Megatron-LM's own tests of tiny models tell of its host time."""

from __future__ import annotations

from typing import Final

from planner.calibrate.fit import Factor
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.stage import Stage

RUNS: Final = "https://github.com/NVIDIA/Megatron-LM/tree/main/tests/functional_tests"

VARIED: Final = 0.15
"""Error at which a test begins to count less: tests of one layout with other flags differ by as much. [-]"""

SLOW_MACHINE: Final = 4
"""Accelerators of the tests whose machine waits 0.6 s in each step, whatever it does: they tell of nothing
else. [-]"""


def host_bound_test(priced: PricedRun) -> bool:
    """Whether a run is one of Megatron-LM's own tests, on a machine like others."""
    return priced.run.source == "megatron-lm-golden" and priced.run.num_gpus != SLOW_MACHINE


def test_shape(priced: PricedRun) -> object:
    """Group tests of one layout."""
    plan = priced.plan
    return plan.tp, plan.pp, plan.cp, plan.ep


def _factor(name: str, start: float, meaning: str) -> Factor:
    return Factor(
        ("era", "megatron-lm", name), start, meaning, 1.0, shared=(("era", "megatron-bridge", name),)
    )


HOST_STAGES: Final = (
    Stage(
        "host of Megatron-LM",
        host_bound_test,
        (
            _factor("host_step_seconds", 0.05, "host time of a step beside its layers' [s]"),
            _factor("host_layer_seconds", 3e-3, "host time of a layer, both passes [s]"),
            _factor("host_context_seconds", 1.5e-3, "what context parallelism adds to it [s]"),
            _factor("host_filling_share", 0.2, "what filling new tensors adds to it, over the rest [-]"),
        ),
        test_shape,
        RUNS,
        soft=VARIED,
    ),
)
"""Its stages."""
