"""The moments of a step that compete for the most memory, as an answer tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced
from planner.report.as_json import Document, estimate_document
from planner.units import GIB


def moments_record(answer: Estimate) -> dict[str, Any]:
    """Return engine and loss, and the live tensors of each stage at each of its moments."""
    return {
        "engine": answer.runtime.traits.engine.name,
        "loss": answer.runtime.traits.loss.kind,
        "stages": [
            {
                "stage": stage.stage,
                "moments": [
                    {"moment": name, "allocated_gib": nbytes / GIB} for name, nbytes in stage.moments
                ],
            }
            for stage in answer.stages
        ],
    }


def whole_document(answer: Estimate | Unpriced, defaults: Mapping[str, Any]) -> Document:
    """Return the document of an estimate that is asked for by itself, its moments of memory among it."""
    document = estimate_document(answer, defaults)
    return document if isinstance(answer, Unpriced) else document | {"moments": moments_record(answer)}


def moments_line(answer: Estimate) -> str:
    """Say what the fullest stage holds at each moment, the largest first."""
    stage = max(answer.stages, key=lambda one: one.total)
    told = sorted(stage.moments, key=lambda one: -one[1])
    words = ", ".join(f"{name} {nbytes / GIB:.2f}" for name, nbytes in told)
    traits = answer.runtime.traits
    kinds = f"{traits.engine.name} with the loss {traits.loss.kind}"
    return f"Live tensors of stage {stage.stage} at each moment of {kinds}, GiB: {words}."
