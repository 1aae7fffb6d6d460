"""Where each rank of a plan sits, and which place it has in each group; who leaves the fast links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.job_tiers import job_tiers
from planner.report.as_json import Document
from planner.report.explain import groups
from planner.report.page import Page, Table

RANKS: Final = "planner/ranks/1"
SHOWN: Final = 64
"""Ranks in the table for people."""


def rank_rows(answer: Estimate) -> Iterator[Document]:
    """Yield one row for each rank: its node and device, and its index along each axis.

    Ranks count along tp first, then cp, dp and pp, or pp and dp. Experts share the ranks of a stage in an
    order of their own: etp first, then ep, then the replicas of an expert.
    """
    plan, node = answer.plan, answer.job.hardware.pool.gpus_per_node
    dense = {"tp": int(plan.tp), "cp": int(plan.cp), "dp": int(plan.dp), "pp": int(plan.pp)}
    if answer.runtime.traits.pipeline.stages_inside:
        dense["dp"] = dense.pop("dp")
    experts = {"etp": int(plan.etp), "ep": int(plan.ep), "expert_dp": int(plan.expert_dp)}
    stage = dense["tp"] * dense["cp"] * dense["dp"]
    for rank in range(answer.job.gpus):
        place = {"rank": rank, "node": rank // node, "device": rank % node}
        row = place | _indices(rank, dense)
        yield row | (_indices(rank % stage, experts) if plan.ep * plan.etp > 1 else {})


def _outer(answer: Estimate) -> str:
    return "cp, pp, dp" if answer.runtime.traits.pipeline.stages_inside else "cp, dp, pp"


def _indices(rank: int, sizes: dict[str, int]) -> dict[str, int]:
    """Return the index along each axis, the first axis fastest."""
    found = {}
    for axis, size in sizes.items():
        found[axis] = rank % size
        rank //= size
    return found


def leaving(answer: Estimate) -> tuple[str, ...]:
    """Return which groups that talk in every layer leave the fast links, in words."""
    tiers = job_tiers(answer.job.hardware.pool, answer.job.gpus)
    inner = [tier for tier in tiers if math.isfinite(tier.domain)]
    return tuple(
        f"{group.axis}, {group.ranks} ranks, leaves the {inner[-1].domain:.0f} accelerators that "
        f"{inner[-1].name} joins"
        for group in groups(answer)
        if inner and group.axis in ("tp", "ep") and not math.isfinite(group.domain)
    )


def ranks_page(answer: Estimate) -> Page:
    """Return the first ranks for people."""
    rows = [row for row, _ in zip(rank_rows(answer), range(SHOWN), strict=False)]
    shown = {head: head.replace("_", " ") for head in rows[0]}
    page: Page = [
        f"Where each rank sits, and its index along each axis (tp fastest, then {_outer(answer)}):",
        Table(tuple({shown[head]: str(value) for head, value in row.items()} for row in rows)),
    ]
    if answer.job.gpus > SHOWN:
        page.append(f"The first {SHOWN} of {answer.job.gpus:,} ranks; --format csv has all.")
    return [*page, *(f"Mind: {line}." for line in leaving(answer))]


def ranks_document(answer: Estimate) -> Document:
    """Return all ranks as JSON."""
    return {"schema": RANKS, "ranks": [*rank_rows(answer)], "leaves_fast_links": [*leaving(answer)]}
