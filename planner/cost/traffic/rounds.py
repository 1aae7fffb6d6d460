"""How often a step sends what data parallelism shares, and what is left of it where chunks take turns."""

from __future__ import annotations

from planner.cost.case import Case, piped
from planner.formulas.overlap import exposed_seconds
from planner.numeric import Num, where
from planner.plan import Plan

BACKWARD_SHARE = 2.0 / 3.0
"""Share of a micro-batch that hides gradients: two products backward for one forward. [-]

What runs again is no part of a micro-batch here: it would cost nothing where traffic takes longer.
"""


GATHERS = 2.0
"""Gathers of a chunk in a round: before its forward passes, and before its backward ones. [-]"""


def rounds(case: Case, plan: Plan) -> Num:
    """How often a step gathers and reduces what is sharded in every pass: for each, or for several. [-]

    FSDP's hooks gather at each forward and let go after it, whatever the schedule.
    """
    if not case.keeps_chunks:
        return plan.num_microbatches
    return case.schedule.rounds(plan.pp, plan.vpp, plan.num_microbatches)


def gatherings(case: Case, plan: Plan) -> Num:
    """How often a step gathers weights as often as a group does: in every round or once. [-]"""
    if not case.sharding.shards_parameters:
        return 1.0
    if not (case.engine.at_rest and case.sharding.keeps_gathered):
        return rounds(case, plan)
    return where(piped(case, plan), 1.0, plan.num_microbatches)


def reductions(case: Case, plan: Plan) -> Num:
    """How often a step reduces the gradients: in every round where they are sharded, else once. [-]"""
    if not case.sharding.shards_gradients:
        return 1.0
    if not case.engine.at_rest:
        return rounds(case, plan)
    return where(piped(case, plan), 1.0, plan.num_microbatches)


def copies_at_once(case: Case) -> tuple[float, float]:
    """Copies of its stage that a rank reduces, and gathers, at once: all held where a step does so once. [-]

    Each of two copies has half of the passes, so that one travels in a pass.
    """
    copies, sharding = case.schedule.weight_copies, case.sharding
    at_rest = case.engine.at_rest
    reduced = copies if at_rest or not sharding.shards_gradients else 1.0
    once = not sharding.shards_parameters or (at_rest and sharding.keeps_gathered)
    return reduced, copies if once else 1.0


def exposed_by_rounds(case: Case, plan: Plan, once: tuple[Num, Num], slowest: Num, share: Num) -> Num:
    r"""Exposed seconds of a step's traffic where a chunk runs all passes of a round before the next starts.

    .. math:: t = \frac{e(g_1 + r,\; w)}{v}
       + e\left(s - \frac{g_1 + r}{v},\; nw - \frac{w}{v}\right) + (R-1)\,e(s,\; nw)

    with :math:`e(x, w)` what compute of :math:`w` leaves of traffic :math:`x`, :math:`s` that of a round of
    :math:`n` passes, and :math:`R` rounds.

    Parameters
    ----------
    case, plan : Case, Plan
        The techniques and degrees.
    once : tuple of Num
        Seconds to reduce the gradients once, :math:`r`, and to gather the weights for a round. [s]
    slowest : Num
        Time of one micro-batch on the slowest stage. [s]
    share : Num
        Share that nothing hides. [-]

    Returns
    -------
    Num
        Exposed time. [s]

    Notes
    -----
    A chunk's traffic hides behind the passes of its neighbours, but for the first chunk's share of a gather
    :math:`g_1` and the last one's of the reduction :math:`r`: these have one pass of their own chunk. So have
    gradients and stepped weights that travel once in a step, each its own share of a pass.

    References
    ----------
    .. [1] J. Lamy-Poirier, "Breadth-First Pipeline Parallelism," arXiv:2211.05953.
    .. [2] D. Tang et al., "ZeroPP," arXiv:2402.03791.
    """
    reduce, gather = once
    sharding, times, chunks = case.sharding, rounds(case, plan), plan.vpp
    passes = plan.num_microbatches / times
    if sharding.shards_parameters:
        window, whole = case.traits.data.window * slowest, reduce + gather
        ends = reduce + gather / GATHERS
        exposed = _with_ends(whole, ends / chunks, window / chunks, passes * window, share)
        return exposed + (times - 1.0) * exposed_seconds(whole, passes * window, share)
    backward = BACKWARD_SHARE * slowest
    forward, after = slowest - backward, 1.0 if case.engine.gathers_at_once else share
    exposed = _with_ends(reduce, reduce / chunks, backward / chunks, passes * backward, share)
    exposed = exposed + _with_ends(gather, gather / chunks, forward / chunks, passes * forward, after)
    if sharding.shards_gradients:
        exposed = exposed + (times - 1.0) * exposed_seconds(reduce, passes * backward, share)
    return exposed


def _with_ends(whole: Num, ends: Num, beside: Num, window: Num, share: Num) -> Num:
    """Return what is exposed of traffic of which ``ends`` has its own part of the window."""
    return exposed_seconds(ends, beside, share) + exposed_seconds(whole - ends, window - beside, share)
