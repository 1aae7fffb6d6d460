"""ZeRO++ as DeepSpeed's JSON says it: a second copy of weights in each node, messages in fewer bits."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.deepspeed.table import SECONDARY, SWITCHES
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import Changes
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

ASKED: Final = (*SWITCHES, "secondary_shards")


def zeropp_section(plan: Plan, changes: Changes, per_node: int) -> dict[str, object]:
    """Return ZeRO++'s keys of ``zero_optimization``; none where nothing is asked, or below ZeRO-3."""
    if plan.zero < 3:
        return {}
    found: dict[str, object] = {key.name: True for trait, key in SWITCHES.items() if changes.get(trait)}
    if changes.get("secondary_shards"):
        found[SECONDARY.name] = per_node
    return found


def zeropp_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on ZeRO++; none where nothing is asked, or below ZeRO-3, where the keys do nothing.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/engine.py``: AutoEP refuses them;
       ``deepspeed/utils/groups.py``, ``_create_zero_param_parallel_group``: groups of neighbouring ranks.
    """
    asked = [name for name in ASKED if runtime.traits.value_of(name)]
    if not asked or plan.zero < 3:
        return []
    offload, word = read_offload(OFFLOADS, plan.offload), " and ".join(asked)
    per_node = min(job.hardware.pool.gpus_per_node, job.gpus)
    off = " ".join(f"--set {name}={'none' if name == ASKED[-1] else 'false'}" for name in asked)
    return [
        Rule(
            "zeropp-alone",
            np.equal(plan.tp, 1) & np.equal(plan.ep, 1),
            lambda: (f"{word} with tp {plan.tp:g}, ep {plan.ep:g}", "tp 1 and ep 1", off),
        ),
        Rule(
            "zeropp-weights-on-device",
            not offload.fetches,
            lambda: (f"{word} with offload {plan.offload}", "weights on the device", off),
        ),
        Rule(
            "zeropp-method",
            job.workload.method == "full",
            lambda: (f"{word} with {job.workload.method}", "full training", off),
        ),
        Rule(
            "secondary-shards-fill-nodes",
            "secondary_shards" not in asked or job.gpus % per_node == 0,
            lambda: (f"{job.gpus} accelerators on nodes of {per_node}", "whole nodes", off),
        ),
    ]
