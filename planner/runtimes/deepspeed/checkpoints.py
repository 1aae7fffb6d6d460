"""Inputs of recomputed layers in host memory: DeepSpeed's ``cpu_checkpointing``."""

from __future__ import annotations

import numpy as np

from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.deepspeed.table import HOST_CHECKPOINTS
from planner.runtimes.family import Job, Runtime
from planner.runtimes.keys import nested


def checkpoint_section(asked: bool) -> dict[str, object]:
    """Return what the JSON says of it: nothing where inputs stay on the device."""
    return nested({HOST_CHECKPOINTS.path: True}) if asked else {}


def checkpoint_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on inputs of recomputed layers that wait on the host; none where there are none.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/activation_checkpointing/checkpointing.py``,
       ``CheckpointFunction``: a function of its own to autograd, which runs backward only if an input needs
       a gradient.
    """
    if not runtime.traits.recompute.host_checkpoints or plan.recompute != "full":
        return []
    off = "--set host_checkpoints=false"
    kernels, method = runtime.traits.kernels, job.workload.method
    return [
        Rule(
            "host-checkpoints-unpiped",
            np.equal(plan.pp, 1),
            lambda: (
                f"host_checkpoints with pp {plan.pp:g}",
                "pp 1: the script's stages have torch's checkpoints",
                off,
            ),
        ),
        Rule(
            "host-checkpoints-method",
            method == "full",
            lambda: (
                f"host_checkpoints with {method}",
                "full training: the first layer's input must need a gradient",
                off,
            ),
        ),
        Rule(
            "host-checkpoints-uncompiled",
            not kernels.compiled,
            lambda: (
                "host_checkpoints with compiled layers",
                "layers that are not compiled: their checkpoint is a function of its own",
                "--set compiled=false",
            ),
        ),
    ]
