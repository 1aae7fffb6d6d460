"""Memory that no split of the layers over the stages can go below."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.memory.host_checkpoints import hosts_checkpoints
from planner.cost.memory.stage_memory import pass_bytes, stage_memory
from planner.cost.memory.weights import stage_weights
from planner.cost.stages import Piece, Stages
from planner.cost.step.step import device_bytes, unseen_bytes
from planner.dataclasses import replace
from planner.numeric import Num
from planner.plan import Plan


def least_bytes(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], totals: Mapping[Piece, Num]) -> Num:
    r"""Bytes that the peak rank needs at least, however the layers are split over the stages. [byte]

    .. math:: \max_i M_i(x_i) \ge \frac{1}{p}\sum_i M_i(x_i) \ge \min_i M_i\Big(\frac{1}{p}\sum_i x_i\Big)

    Parameters
    ----------
    case : Case
        The job and its techniques.
    plan : Plan
        The degrees, scalars or columns.
    costs : mapping
        Cost of each piece of the model.
    totals : mapping
        Pieces of the whole model. [-]

    Returns
    -------
    Num
        A bound; some rank holds at least the mean, with as many micro-batches in flight as the rank that has
        the fewest, which is the first one or the last. [byte]

    Notes
    -----
    What a stage needs is a sum of maxima of sums over what it holds, hence convex. The allocator's reserve of
    gradients that come and go is not, and is left out; so are activations where some layers' are on the host,
    the loss, which a stage with several heads has once, and a tied head, which one rank may hold with the
    embedding.

    References
    ----------
    .. [1] J. L. W. V. Jensen, "Sur les fonctions convexes et les inégalités entre les valeurs moyennes," Acta
       Math. 30, 1906, doi:10.1007/BF02418571.
    """
    share = {
        piece: count / plan.pp
        for piece, count in totals.items()
        if not (case.model.tied_embeddings and piece[0] in ("head", "tied_head"))
    }
    ranks = np.stack([0.0 * np.asarray(plan.pp), np.asarray(plan.pp) - 1.0])
    mean = Stages({piece: count + 0.0 * ranks for piece, count in share.items()}, ranks)
    passes = pass_bytes(case, plan, {piece: costs[piece] for piece in share}, mean)
    passes = replace(passes, loss=0.0 * passes.loss)
    if case.model.tied_embeddings:
        passes = replace(passes, gathered_head=passes.gathered_embedding)
    if case.offload.layers or hosts_checkpoints(case):
        passes = replace(passes, activations=0.0 * passes.activations)
    memory = stage_memory(case, plan, passes, stage_weights(case, costs, mean), mean)
    lasting = case.engine.keeps_all(case.sharding)
    whole = device_bytes(case, memory) if lasting else memory.allocated + unseen_bytes(case, memory)
    least: Num = np.min(whole, axis=0)
    return least


def is_splittable(case: Case) -> bool:
    """Whether a rank of one chunk holds one run of layers, in one version, its states through the whole step.

    Then its memory is a sum over its layers beside the largest that is rebuilt. A schedule that keeps chunks
    whole for their passes, or sends them to the host, needs what no such sum has.
    """
    schedule = case.schedule
    once = schedule.routes == 1 and schedule.weight_copies == 1.0 and schedule.flushes
    lasting = case.engine.keeps_all(case.sharding)
    moved = case.offload.layers or hosts_checkpoints(case) or schedule.hosts or case.keeps_chunks
    return bool(once and lasting and not moved)
