"""A bare pipeline: a schedule and pass times, with no model behind them."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.errors import UnsupportedPlan
from planner.simulate.copies import CopiedStep, play_copied
from planner.techniques.schedules import Schedule
from planner.techniques.schedules.engine import Pipeline, Timeline, play
from planner.techniques.schedules.family import Orders, PassTimes


def check_supported(schedule: Schedule, pp: int, vpp: int, microbatches: int) -> None:
    """Refuse numbers that a schedule cannot run.

    Raises `UnsupportedPlan` with every reason.
    """
    if reasons := schedule.supports(pp, vpp, microbatches):
        raise UnsupportedPlan("\n".join(reasons))


@dataclass(frozen=True)
class BarePipeline:
    """One step of a schedule whose chunks all take the same times."""

    schedule: Schedule
    """Whose order is played."""
    pp: int
    vpp: int
    microbatches: int
    """Ranks, chunks per rank, micro-batches."""
    times: PassTimes
    """Times of one chunk, in any unit."""
    sends_occupy: bool = False
    """Whether a message also keeps its sender from the next pass."""

    @property
    def pipeline(self) -> Pipeline:
        """Places and times of the chunks."""
        ranks = self.schedule.chunk_ranks(self.pp, self.vpp)
        return Pipeline.uniform(ranks, self.times, self.schedule.routes, self.sends_occupy)

    @property
    def title(self) -> str:
        """What is played, in words."""
        return f"{self.schedule.name}: pp {self.pp}, vpp {self.vpp}, {self.microbatches} micro-batches."

    @property
    def hosted(self) -> range:
        """Chunks whose activations wait on the host between forward and backward."""
        return range(int(self.schedule.offloaded_chunks(self.vpp)) * self.pp)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the schedule cannot run these numbers."""
        return self.schedule.supports(self.pp, self.vpp, self.microbatches)

    def played(self, jitter: float = 0.0, seed: int = 0) -> Timeline:
        """Play the step.

        Parameters
        ----------
        jitter : float
            Relative spread of pass times, log-normal with mean one. [-]
        seed : int
            Seed of the spread.

        Raises
        ------
        UnsupportedPlan
            If the schedule cannot run these numbers; has every reason.
        """
        return play(self._orders(), self.pipeline, jitter, seed)

    def played_with_copies(self, copy: float, jitter: float = 0.0, seed: int = 0) -> CopiedStep:
        """Play the step as `played` does, with copies of what the `hosted` chunks save.

        ``copy`` is the time to copy what one chunk saves, one way, in the unit of the times.
        """
        return play_copied(self._orders(), self.pipeline, self.hosted, copy, jitter, seed)

    def _orders(self) -> Orders:
        check_supported(self.schedule, self.pp, self.vpp, self.microbatches)
        return self.schedule.order(self.pp, self.vpp, self.microbatches, self.times)
