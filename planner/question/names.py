"""The names under which a plan file finds its model and cluster again."""

from __future__ import annotations

from planner.cost.estimate import Estimate
from planner.dataclasses import replace
from planner.inputs.hardware import OWN_PRICE
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.question.reading import KEYWORDS, Reading
from planner.report.plan_file import Names, digest


def plan_names(answer: Estimate, model: str, hardware: str) -> Names:
    """Return the names of a priced plan: those that the caller gives, or that the records have.

    Raises `InputError` if one is not that of the plan's model or cluster.
    """
    job, reading = answer.job, Reading(KEYWORDS)
    named = Names(model or job.model.name, hardware or job.hardware.name)
    known_model = reading.attempt(load_model, named.model)
    cluster = reading.attempt(load_hardware, named.hardware, "cluster")
    per_node = job.hardware.pool.gpus_per_node
    if cluster is not None and cluster.pool.gpus_per_node != per_node:
        named = replace(named, gpus_per_node=per_node)
        cluster = reading.attempt(cluster.with_node_size, per_node)
    own = job.hardware.pool.price
    if cluster is not None and own is not None and own.source == OWN_PRICE:
        cluster = cluster.with_price(float(own))
    if known_model is not None and digest(known_model) != digest(job.model):
        reading.fault("model", repr(named.model), "a name or path that loads the model of this plan")
    if cluster is not None and digest(cluster) != digest(job.hardware):
        reading.fault("hardware", repr(named.hardware), "a name or path that loads the cluster of this plan")
    reading.finish()
    usable = job.hardware.pool.accelerator.memory_usable
    return replace(named, memory_limit=answer.capacity if answer.capacity < usable else None)
