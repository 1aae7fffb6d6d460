"""The splits of a model's layers that follow from their sums, as rows of two tables."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.layer.einsums import Einsum, block_einsums, own_einsums
from planner.cost.layer.shardings import ENDS, PARTIAL, WHOLE, Derived, derive, legal_choices
from planner.inputs.model import ModelSpec
from planner.inputs.own_block import OwnBlock
from planner.report.model_facts import Row


def model_rows(model: ModelSpec, ranks: int) -> tuple[list[Row], list[Row]]:
    """Return the legal splits of every block of a model, and the cheapest."""
    sums = {name: block_einsums(block, model.hidden, 1.0) for name, block in model.blocks.items()}
    legal = [row for name, einsums in sums.items() for row in legal_rows(name, einsums)]
    return legal, [row for name, einsums in sums.items() for row in derived_rows(name, einsums, ranks)]


def own_rows(block: OwnBlock, ranks: int) -> tuple[list[Row], list[Row]]:
    """Return the legal splits of a block of one's own with the FLOPs of products, and the cheapest."""
    einsums = own_einsums(block, 1.0)
    legal = legal_rows(block.name, einsums)
    for row, one in zip(legal, einsums, strict=True):
        row["product_flops_per_token"] = one.product_flops
    return legal, derived_rows(block.name, einsums, ranks)


def legal_rows(block: str, einsums: Sequence[Einsum]) -> list[Row]:
    """Return for each operator of a layer its sum, and what each legal split makes of its result."""
    rows: list[Row] = []
    for one in einsums:
        splits = [
            f"{choice.index}: {_result(choice.writes)}" for choice in legal_choices(one) if choice.index
        ]
        rows.append({"block": block, "operator": one.name, "sum": one.text, "splits": ", ".join(splits)})
    return rows


def _result(state: str) -> str:
    return {PARTIAL: "partial sum", WHOLE: "whole"}.get(state, f"split {state}")


def derived_rows(block: str, einsums: Sequence[Einsum], ranks: int) -> list[Row]:
    """Return for each way to use a group of ranks the cheapest splits of a layer and its collectives.

    Elements that a rank sends are told for each token, forward.
    """
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


def _splits(einsums: Sequence[Einsum], derived: Derived) -> str:
    """Return what carries weights or mixes tokens, with the index that is split."""
    told = [one.name for one in einsums if one.weight or one.name in ("attention", "scan")]
    return ", ".join(
        f"{name} {derived.choices[name].index or '-'}" for name in told if name in derived.choices
    )


def _messages(derived: Derived) -> list[str]:
    """Return the collectives, once for parts of one tensor that go alike."""
    return list(dict.fromkeys(f"{one.kind} of {one.tensor}" for one in derived.collectives))
