"""Exchanges between replicas played event by event: stragglers, and links that carry one after another.

A twin of `planner.cost.sites.price`: the same way over the same sites, but each replica's compute is drawn,
each exchange starts when all that take part have come, and a link serves them in the order of their starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.cost.sites.price import Trained, Way, route_of, sent_bytes, step_seconds, timing_of
from planner.cost.sites.routes import Route, key
from planner.techniques.sync.family import SyncTiming


@dataclass(frozen=True)
class Played:
    """What came of some periods.

    Parameters
    ----------
    step : float
        Mean time of an inner step. [s]
    waiting : float
        Share of the replicas' time in which they wait. [-]
    """

    step: float
    waiting: float


class _Links:
    """Links that serve exchanges in the order in which they start."""

    def __init__(self) -> None:
        self.free: dict[tuple[int, int], float] = {}

    def send(self, route: Route, nbytes: float, start: float, extra: float) -> float:
        """Return when an exchange over all links of a route ends."""
        ends = []
        for place, hop in enumerate(route.hops):
            lasting = hop.share * nbytes / hop.rate + route.turns * route.latency + extra
            begin = max(start, self.free.get((place, 0), 0.0))
            self.free[place, 0] = begin + lasting
            ends.append(begin + lasting)
        return max(ends)

    def meet(self, pair: tuple[int, int], lasting: float, start: float) -> float:
        """Return when two replicas have exchanged."""
        begin = max(start, self.free.get(pair, 0.0))
        self.free[pair] = begin + lasting
        return begin + lasting


class _Run:
    """Replicas at work."""

    def __init__(self, way: Way, trained: Trained, seed: int) -> None:
        self.way, self.trained = way, trained
        self.draw = np.random.default_rng(seed)
        self.timing: SyncTiming = timing_of(way, trained)
        sites = [one for one in trained.profile.sites for _ in range(one.replicas)]
        self.names = [one.name for one in sites]
        self.means = np.array([step_seconds(way, trained)[one.name] for one in sites])
        self.deviations = np.array([one.deviation for one in sites])
        self.whole = sent_bytes(way, trained)
        packed = float(trained.model.params) * way.packed.how.pass_bytes
        self.packing = packed / trained.shards / trained.memory_rate
        self.links, self.route = _Links(), route_of(way, trained.profile)
        self.now = np.zeros(len(sites))
        self.worked = np.zeros(len(sites))
        self.order = np.arange(len(sites))

    def meet_others(self) -> None:
        """Draw who meets whom until the next exchange."""
        self.order = self.draw.permutation(len(self.names))

    def compute(self, steps: float) -> None:
        """Let every replica do some inner steps, or as much of the clock as they take on average."""
        if steps <= 0:
            return
        means = self.means
        if self.way.sync.waits:
            drawn = self.draw.standard_normal(len(means)) * np.sqrt(steps)
            taken = np.maximum(0.0, means * (steps + self.deviations * drawn))
        else:
            taken = np.full_like(means, len(means) / np.sum(1.0 / means)) * steps
        self.now, self.worked = self.now + taken, self.worked + taken

    def end_step(self) -> None:
        """Let replicas that stop by the clock end the step that is under way, where steps vary."""
        if not self.way.sync.waits:
            left = (self.deviations > 0) * self.means * self.draw.random(len(self.means))
            self.now, self.worked = self.now + left, self.worked + left

    def exchange(self, models: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Start an exchange as soon as all have come, and return when each has its result."""
        nbytes, extra = models * self.whole, models * self.packing
        if self.way.sync.pattern != "pair":
            return np.full_like(self.now, self.links.send(self.route, nbytes, float(self.now.max()), extra))
        ends = self.now.copy()
        for one, other in zip(self.order[0::2], self.order[1::2], strict=False):
            pair = (int(min(one, other)), int(max(one, other)))
            lasting = self._met(pair, nbytes) + extra
            ends[[one, other]] = self.links.meet(pair, lasting, float(self.now[[one, other]].max()))
        return ends

    def _met(self, pair: tuple[int, int], nbytes: float) -> float:
        one, other = (self.names[place] for place in pair)
        rates = [hop.rate for hop in self.route.hops if hop.pair == key(one, other)]
        return nbytes / min(rates) + self.route.latency if rates else 0.0


def play(way: Way, trained: Trained, periods: int, seed: int = 0) -> Played:
    """Return what comes of some periods, after as many to start with.

    Parameters
    ----------
    way : Way
        How replicas keep together.
    trained : Trained
        What trains where.
    periods : int
        From one exchange to the next. [-]
    seed : int
        Of what is drawn.
    """
    run = _Run(way, trained, seed)
    period = run.timing.period
    pending: list[tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]] = []
    begin = begun = 0.0
    for number in range(2 * periods):
        if number == periods:
            begin, begun = float(run.now.mean()), float(run.worked.mean())
        pending = sorted(pending, key=lambda one: one[0])
        done = 0.0
        for due, ends in pending:
            run.compute(due - done)
            done = max(done, due)
            run.now = np.maximum(run.now, ends)
        run.compute(period - done)
        run.end_step()
        run.meet_others()
        pending = [
            (min(send.window, period), run.exchange(send.models))
            for send in run.timing.sends
            if (number + 1) % send.every == 0
        ]
    lasted = float(run.now.mean()) - begin
    return Played(lasted / periods / period, 1.0 - (float(run.worked.mean()) - begun) / lasted)
