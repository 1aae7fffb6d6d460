"""Which runs a stage of the fit wants, and what those of one group have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from planner.calibrate.constants import Key
from planner.calibrate.runs.defaults import PricedRun


def source_runs(*names: str) -> Callable[[PricedRun], bool]:
    """Return what asks whether a run stands in one of these sources."""
    return lambda priced: priced.run.source in names


def model_and_size(priced: PricedRun) -> Hashable:
    """Group runs of one model on one number of accelerators."""
    return priced.run.model, priced.run.num_gpus


def model(priced: PricedRun) -> Hashable:
    """Group runs of one model."""
    return priced.run.model


def layout(priced: PricedRun) -> Hashable:
    """Group runs of one model, size, tensor and pipeline parallelism."""
    return priced.run.model, priced.run.num_gpus, priced.plan.tp, priced.plan.pp


def megatron_2020_23(priced: PricedRun) -> bool:
    """Whether a run is of NVIDIA's own tables of 2020 to 2022, or of Zero Bubble's."""
    nvidia = priced.era == "megatron-2020-22" and priced.run.source.startswith("megatron-")
    return nvidia or priced.era == "zero-bubble-2023"


BRIDGE_ERAS = ("megatron-bridge", "megatron-bridge-early", "megatron-bridge-graph")
"""Eras of Megatron-Bridge."""


def older_recipes(name: str) -> tuple[Key, ...]:
    """Return a constant of experts in the eras whose layers with experts are those of Megatron-Bridge's."""
    return tuple(("era", era, name) for era in ("megatron-bridge-early", "nemo-2025"))


def dense_recipe(priced: PricedRun) -> bool:
    """Whether a run is a recipe that pre-trains a dense model."""
    bridge = priced.era in (*BRIDGE_ERAS, "nemo-2024")
    return bridge and priced.task == "pretrain" and not priced.run.experts


def expert_recipe(priced: PricedRun) -> bool:
    """Whether a run is a recipe that pre-trains a mixture of experts."""
    bridge = priced.era in BRIDGE_ERAS and priced.task == "pretrain"
    return bridge and bool(priced.run.experts)


def hidden_all_to_all(priced: PricedRun) -> bool:
    """Whether an all-to-all of a recipe's experts goes beside the compute of another micro-batch."""
    traits = priced.runtime.traits.experts
    return expert_recipe(priced) and traits.overlaps and traits.dispatcher == "all-to-all"


def weighed(wanted: Callable[[PricedRun], bool]) -> Callable[[PricedRun], bool]:
    """Of these runs, those whose memory was read from a counter that the row names."""
    return lambda priced: wanted(priced) and bool(priced.run.peak_mem_gib and priced.run.memory_kind)
