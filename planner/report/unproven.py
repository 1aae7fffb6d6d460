"""What of a plan no measured run stands behind, in words."""

from __future__ import annotations

from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.kinds import kinds_without_runs, unmeasured_kinds
from planner.inputs.bands import chip_of, core_of
from planner.report.limits import WORTH_TELLING
from planner.report.settings_line import unproven_settings
from planner.runtimes.eager import HOST, LAUNCH_SECONDS, LAYER_LAUNCHES
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

PRINTED_OVER_PRICED: Final = 1.63
"""Memory of the one run that is printed over its price: 19.6 GB for 12.4. [-]

References
----------
.. [1] Hugging Face, PEFT 018ca9d6, ``docs/source/accelerate/fsdp.md``, "Memory usage": QLoRA of Llama 2 70B,
   two sequences of 2,048 tokens, FSDP 1 on two devices with the base on the host.
"""


def unproven(answer: Estimate) -> list[str]:
    """Say in one sentence what of a plan no measured run stands behind, whatever its band."""
    doubts = [*unproven_host(answer), *unproven_base(answer), *unproven_settings(answer), *_new_kinds(answer)]
    return [f"Unproven: {'; '.join(doubts)}."] if doubts else []


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


def unproven_base(answer: Estimate) -> list[str]:
    """Say how far off the memory may be of adapters beside a base on the host, as a clause."""
    hosted = read_offload(OFFLOADS, answer.plan.offload).fetches
    if not hosted or METHODS[answer.job.workload.method].trains_base:
        return []
    return [
        "the memory of adapters beside a base on the host (PEFT's own run took "
        f"{PRINTED_OVER_PRICED:g} times its price, under FSDP 1)"
    ]


def _new_kinds(answer: Estimate) -> list[str]:
    """Say which kinds of plan no measured run has, as a clause; without a run there, those that none has."""
    if answer.error_band is None:
        nowhere = kinds_without_runs(answer.plan, answer.job)
        if not nowhere or not METHODS[answer.job.workload.method].trains_base:
            return []
        return [f"no measured run of whole training, on any machine, has {' or '.join(nowhere)}"]
    kinds = unmeasured_kinds(answer.plan, answer.job, answer.runtime)
    name = answer.job.hardware.pool.accelerator.name
    chip = name if chip_of(name).isalpha() else chip_of(name)
    what = "a mixture of experts" if answer.job.model.expert_kinds else "a dense model"
    there = f"no measured {core_of(answer.runtime.name)} run of {what} on {chip} has"
    return [f"{there} {' or '.join(kinds)}"] if kinds else []
