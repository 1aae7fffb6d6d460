"""Jobs and plans for the tests of launch files."""

from __future__ import annotations

from functools import cache
from typing import Any

from planner.inputs.hardware import HardwareProfile
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job

model = cache(load_model)


@cache
def cluster(name: str = "dgx-h100") -> HardwareProfile:
    """Return a cluster of the profiles."""
    return load_hardware(name)


def job(of: str | ModelSpec, gpus: int, *, hardware: str = "dgx-h100", **work: Any) -> Job:
    """Return a job for a model, by name or whole, on a cluster of the profiles."""
    return Job(model(of) if isinstance(of, str) else of, cluster(hardware), gpus, Workload(**work))


def plan(gpus: int, global_batch: int, **fields: Any) -> Plan:
    """Return a scalar plan: dp, micro-batches and shards follow from the other degrees."""
    known = Plan(**{"zero": 1, **fields})
    dp = gpus / float(known.tp * known.pp * known.cp)
    follows = {
        "dp": dp,
        "num_microbatches": global_batch / (float(known.micro_batch) * dp),
        "zero_shards": dp * float(known.cp) if known.zero else 1.0,
    }
    return Plan(**({"zero": 1, **follows} | fields))
