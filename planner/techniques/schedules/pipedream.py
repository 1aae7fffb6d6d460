"""PipeDream: asynchronous 1F1B; no flush, and one version of the weights for each micro-batch in flight."""

from __future__ import annotations

from planner.formulas.pipeline import pipedream_wait_seconds
from planner.numeric import Num
from planner.techniques.schedules.family import ONE_CHUNK, Schedule
from planner.techniques.schedules.one_f_one_b import in_flight_chunks, order


def weight_versions(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """One version for each micro-batch between a forward here and its backward."""
    return in_flight_chunks(pp, vpp, microbatches, rank)


ENTRY = Schedule(
    name="pipedream",
    aliases=("1f1b-async", "pipedream-async"),
    cite="arXiv:1806.03377; SOSP 2019 doi:10.1145/3341301.3359646",
    splits_backward=False,
    rules=(ONE_CHUNK,),
    bubble_seconds=pipedream_wait_seconds,
    in_flight_chunks=in_flight_chunks,
    weight_versions=weight_versions,
    order=order,
    flushes=False,
)
