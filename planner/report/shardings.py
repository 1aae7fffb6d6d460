"""The splits of a model's layers that follow from their sums, as rows of two tables."""

from __future__ import annotations

from planner.cost.layer.einsums import Einsum, block_einsums
from planner.cost.layer.shardings import ENDS, PARTIAL, WHOLE, Derived, derive, legal_choices
from planner.inputs.model import ModelSpec
from planner.report.model_facts import Row


def legal_rows(model: ModelSpec, block: str) -> list[Row]:
    """Return for each operator of a layer its sum, and what each legal split makes of its result."""
    rows: list[Row] = []
    for one in block_einsums(model.blocks[block], model.hidden, 1.0):
        splits = [
            f"{choice.index}: {_result(choice.writes)}" for choice in legal_choices(one) if choice.index
        ]
        rows.append({"block": block, "operator": one.name, "sum": one.text, "splits": ", ".join(splits)})
    return rows


def _result(state: str) -> str:
    return {PARTIAL: "partial sum", WHOLE: "whole"}.get(state, f"split {state}")


def derived_rows(model: ModelSpec, block: str, ranks: int) -> list[Row]:
    """Return for each way to use a group of ranks the cheapest splits of a layer and its collectives.

    Elements that a rank sends are told for each token, forward.
    """
    einsums = block_einsums(model.blocks[block], model.hidden, 1.0)
    found = ((axis, derive(einsums, axis, float(ranks))) for axis in ENDS)
    return [
        {
            "block": block,
            "ranks_for": axis,
            "splits": _splits(einsums, derived),
            "collectives": "; ".join(_messages(derived)) or "none",
            "sent_elements_per_token": derived.sent,
        }
        for axis, derived in found
        if derived is not None
    ]


def _splits(einsums: tuple[Einsum, ...], derived: Derived) -> str:
    """Return what carries weights or mixes tokens, with the index that is split."""
    told = [one.name for one in einsums if one.weight or one.name in ("attention", "scan")]
    return ", ".join(
        f"{name} {derived.choices[name].index or '-'}" for name in told if name in derived.choices
    )


def _messages(derived: Derived) -> list[str]:
    """Return the collectives, once for parts of one tensor that go alike."""
    return list(dict.fromkeys(f"{one.kind} of {one.tensor}" for one in derived.collectives))
