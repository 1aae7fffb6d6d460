"""Jobs of one cluster whose nodes fail and are repaired, played out under two ways to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.search.reconfigure import PresentJob, Times, best_shares


@dataclass(frozen=True)
class Trace:
    """Failures of a cluster.

    Parameters
    ----------
    seconds : float
        How long it is watched.
    nodes, others : int
        Failures that take a node, and those that end processes alone.
    repair : float
        Until a node is back. [s]
    """

    seconds: float
    nodes: int
    others: int
    repair: float

    def events(self, seed: int) -> list[tuple[float, bool, float]]:
        """Return times, whether a node is lost, and a draw that picks the job."""
        draw = np.random.default_rng(seed)
        lost = [True] * self.nodes + [False] * self.others
        times = draw.uniform(0, self.seconds, len(lost))
        return sorted(zip(times.tolist(), lost, draw.uniform(0, 1, len(lost)).tolist(), strict=True))


def hit_job(shares: Sequence[int], pick: float) -> int:
    """Return the job that a failure hits, by its share."""
    edges = np.cumsum(shares) / sum(shares)
    return int(np.searchsorted(edges, pick))


def restarted(jobs: Sequence[PresentJob], trace: Trace, restart: float, seed: int) -> float:
    """Return the work of jobs that keep their shares: one that lost a node waits for it, then starts anew."""
    shares = [job.has for job in jobs]
    stopped = [0.0] * len(jobs)
    idle = [0.0] * len(jobs)
    for time, node, pick in trace.events(seed):
        number = hit_job(shares, pick)
        until = time + restart + (trace.repair if node else 0.0)
        begin = max(time, stopped[number])
        idle[number] += max(0.0, min(until, trace.seconds) - begin)
        stopped[number] = max(stopped[number], until)
    return sum(job.rate(job.has) * (trace.seconds - gone) for job, gone in zip(jobs, idle, strict=True))


def reconfigured(jobs: Sequence[PresentJob], trace: Trace, times: Times, node: int, seed: int) -> float:
    """Return the work of jobs whose shares are all chosen anew whenever a node is lost or back."""
    now, gpus, clock, done = list(jobs), sum(job.has for job in jobs), 0.0, 0.0
    events = [(time, "lost" if lost else "hit", pick) for time, lost, pick in trace.events(seed)]
    events += [(time + trace.repair, "back", 0.0) for time, kind, _ in events if kind == "lost"]
    for time, kind, pick in sorted(events):
        if time > trace.seconds:
            break
        done += sum(job.rate(job.has) for job in now) * (time - clock)
        clock = time
        hit = now[hit_job([job.has for job in now], pick)].name if kind != "back" else None
        gpus += {"lost": -node, "back": node, "hit": 0}[kind]
        shares = best_shares(now, gpus, times.running(gpus), times.transition, hit)
        for place, share in enumerate(shares):
            if share != now[place].has or now[place].name == hit:
                done -= now[place].rate(share) * times.transition
            now[place] = replace(now[place], has=share)
    return done + sum(job.rate(job.has) for job in now) * (trace.seconds - clock)
