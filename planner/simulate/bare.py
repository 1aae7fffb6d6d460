"""A bare pipeline: a schedule and pass times, with no model behind them."""

from __future__ import annotations

from planner.errors import UnsupportedPlan
from planner.simulate.copies import CopiedStep, play_copied
from planner.techniques.schedules import Schedule
from planner.techniques.schedules._engine import Pipeline, Timeline, play
from planner.techniques.schedules._family import PassTimes


def check_supported(schedule: Schedule, pp: int, vpp: int, microbatches: int) -> None:
    """Refuse numbers that a schedule cannot run.

    Raises
    ------
    UnsupportedPlan
        With every reason.
    """
    if reasons := schedule.supports(pp, vpp, microbatches):
        raise UnsupportedPlan("\n".join(reasons))


def bare_step(
    schedule: Schedule,
    pp: int,
    vpp: int,
    microbatches: int,
    times: PassTimes,
    sends_occupy: bool = False,
    jitter: float = 0.0,
    seed: int = 0,
) -> Timeline:
    """Play one step of a schedule whose chunks all take the same times.

    Parameters
    ----------
    schedule : Schedule
        Whose order is played.
    pp, vpp, microbatches : int
        Ranks, chunks per rank, micro-batches.
    times : PassTimes
        Times of one chunk, in any unit.
    sends_occupy : bool
        Whether a message also keeps its sender from the next pass.
    jitter : float
        Relative spread of pass times, log-normal with mean one. [-]
    seed : int
        Seed of the spread.

    Raises
    ------
    UnsupportedPlan
        If the schedule cannot run these numbers; has every reason.
    """
    check_supported(schedule, pp, vpp, microbatches)
    pipeline = Pipeline.uniform(schedule.chunk_ranks(pp, vpp), times, schedule.routes, sends_occupy)
    return play(schedule.order(pp, vpp, microbatches, times), pipeline, jitter, seed)


def bare_copied_step(
    schedule: Schedule,
    pp: int,
    vpp: int,
    microbatches: int,
    times: PassTimes,
    copy: float,
    jitter: float = 0.0,
    seed: int = 0,
) -> CopiedStep:
    """Play one step of a schedule, the activations of its `offloaded_chunks` on the host meanwhile.

    Parameters
    ----------
    schedule : Schedule
        Whose order is played.
    pp, vpp, microbatches : int
        Ranks, chunks per rank, micro-batches.
    times : PassTimes
        Times of one chunk, in any unit.
    copy : float
        Time to copy what one chunk saves, one way, in the same unit.
    jitter : float
        Relative spread of pass times, log-normal with mean one. [-]
    seed : int
        Seed of the spread.

    Raises
    ------
    UnsupportedPlan
        If the schedule cannot run these numbers; has every reason.
    """
    check_supported(schedule, pp, vpp, microbatches)
    pipeline = Pipeline.uniform(schedule.chunk_ranks(pp, vpp), times, schedule.routes)
    gone = range(schedule.offloaded_chunks(vpp) * pp)
    return play_copied(schedule.order(pp, vpp, microbatches, times), pipeline, gone, copy, jitter, seed)
