"""The least time of a layer: what its host, and ranks that meet in order, take however small its work is."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.operators import Pricer
from planner.formulas.collectives import crowded_rate
from planner.formulas.launches import floored_seconds
from planner.inputs.model import Block, DenseFfn
from planner.numeric import Num, minimum, where

FORWARD_SHARE = 1.0 / 3.0
"""Share of a layer's floor that its forward pass has: backward has two products for each of its own. [-]"""


def layer_floor(pricer: Pricer, block: Block) -> Num:
    r"""Floor of a layer's time for a micro-batch, both passes. [s]

    .. math:: t_0 = a + [n > 1]\,\left(b + s\,(c\,n_1 + d\,(n - n_1) / \rho)\right)

    of :math:`n` tensor-parallel ranks, :math:`n_1` of them in one fast domain, with sequence parallelism
    (:math:`s = 1`) or without, on a network whose rate falls to the share :math:`\rho` over their nodes. Work
    and hidden size do not matter. The form is empirical: 701 steps of nanotron's sweep [1]_ tell it.

    References
    ----------
    .. [1] Hugging Face, "The Ultra-Scale Playbook," 2025,
       https://huggingface.co/spaces/nanotron/ultrascale-playbook.
    """
    case, traits = pricer.case, pricer.case.traits
    if not traits.host.layer_floor_seconds or not isinstance(block.ffn, DenseFfn):
        return 0.0
    shared: Num = traits.host.tensor_floor_seconds
    if case.sequence_parallel:
        shared = shared + rank_seconds(case, pricer.plan.tp)
    return where(
        pricer.plan.tp > 1, traits.host.layer_floor_seconds + shared, traits.host.layer_floor_seconds
    )


def rank_seconds(case: Case, ranks: Num) -> Num:
    """Least seconds of a layer for its tensor-parallel ranks, in one fast domain and beyond. [s]"""
    near, network, traits = case.fast_tier.spread(1.0, ranks), case.tiers[-1], case.traits
    beyond = ranks - near.largest
    if network.crowd:
        whole = near.largest * network.bandwidth
        beyond = beyond * (whole / minimum(whole, crowded_rate(network, near.domains)))
    return traits.host.sequence_rank_seconds * near.largest + traits.host.sequence_far_seconds * beyond


def floored_passes(passes: tuple[Num, Num, Num, Num], floor: Num) -> tuple[Num, Num, Num, Num]:
    """Return the time of a layer, and of its parts in proportion, where all of it has a floor. [s]"""
    whole, *parts = passes
    longer = floored_seconds(whole, floor) / whole
    forward, weight, again = (part * longer for part in parts)
    return whole * longer, forward, weight, again
