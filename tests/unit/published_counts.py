"""Parameters of a model counted as its authors count them: their printed numbers prove the zoo."""

from __future__ import annotations

from planner.inputs.model import ModelSpec


def published_params(model: ModelSpec, active: bool) -> int:
    """Return all parameters, or those of a token, without the parts that the authors leave out. [element]"""
    said = model.published
    parts = {
        "embedding": model.embedding_params,
        "head": model.head_params - model.final_norm * model.norm_params,
    }
    without = said.active_without if active else said.params_without
    whole = model.active_params if active else model.params
    extra = model.prediction_params if said.with_prediction and not active else 0
    return whole + extra - sum(parts[part] for part in without)
