"""What a way to keep sites together makes of their inner steps: time, traffic, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.cost.sites.routes import Pair, Route, chain_route, pair_route, ring_route, slowest_of
from planner.dataclasses import dataclass, field, replace
from planner.formulas.low_communication import boundary_bytes, exchange_period, slowest_seconds
from planner.inputs.model import ModelSpec
from planner.inputs.sites import SitesProfile
from planner.techniques.compress import Packed
from planner.techniques.compress.family import FULL
from planner.techniques.sync import Sync
from planner.techniques.sync.family import Parts, SyncTiming

TRAINED: Final = 12.0
"""Gradient and two moments of a parameter that is trained, in 4 bytes each. [byte/element]"""

ACTIVATION: Final = 2.0
"""Size of an activation that nobody compresses. [byte/element]"""


@dataclass(frozen=True)
class Trained:
    """What trains at the sites between exchanges."""

    profile: SitesProfile
    """Sites and links."""
    model: ModelSpec
    """What is trained."""
    tokens: float
    """Tokens of an inner step over all replicas. [-]"""
    seconds: Mapping[str, float]
    """Time of one inner step of a replica, by site. [s]"""
    memory_rate: float
    """Slowest memory of an accelerator, which packs and unpacks. [byte/s]"""
    shards: float
    """Accelerators over which a replica's parameters are spread, of the least sharded one. [-]"""
    micro_batches: int = 1
    """Passes of an inner step of one replica, which a pipeline over sites sends on one by one. [-]"""
    reductions: int = 1
    """Times that gradients go in a step: after the last micro-batch, or after each of them. [-]"""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Sequences of a replica's step by site, where they are unlike. [-]"""

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.profile.replicas


@dataclass(frozen=True)
class Way:
    """One way to keep together: a method with its inner steps, its compression and its delay."""

    sync: Sync
    steps: int
    packed: Packed
    delay: int = 0


@dataclass(frozen=True)
class SyncPrice:
    """What a way costs."""

    way: Way
    """Which."""
    timing: SyncTiming
    """When it exchanges."""
    compute: float
    """Inner step without exchanges, the slowest replica waited for where it is. [s]"""
    exchanges: tuple[float, ...]
    """Time of each exchange of a period alone. [s]"""
    period: float
    """From one exchange to the next. [s]"""
    utilisation: float
    """Share of the accelerators' time in which they train. [-]"""
    peak: Mapping[Pair, float]
    mean: Mapping[Pair, float]
    """Rate of each link while it sends, and on average, in its busier direction. [byte/s]"""
    device_bytes: float
    host_bytes: float
    """What it keeps on one accelerator, and in host memory for it, beside training. [byte]"""

    @property
    def step(self) -> float:
        """Mean time of an inner step, its share of the exchanges included. [s]"""
        return self.period / self.timing.period


def price_way(way: Way, trained: Trained) -> SyncPrice:
    """Return what a way costs on the sites."""
    if way.sync.pattern == "stages":
        return _price_stages(way, trained)
    timing = timing_of(way, trained)
    route = route_of(way, trained.profile)
    whole = sent_bytes(way, trained)
    packing = float(trained.model.params) * way.packed.pass_bytes / trained.shards / trained.memory_rate
    compute = step_compute(way, timing, trained)
    steps = timing.period * compute
    times = tuple(route.seconds(send.models * whole) + send.models * packing for send in timing.sends)
    pairs = list(zip(timing.sends, times, strict=True))
    exposed = sum(
        (float(exchange_period(steps, time, send.window * compute)) - steps) / send.every
        for send, time in pairs
    )
    period = max(steps + exposed, sum(time / send.every for send, time in pairs))
    amount = timing.models_per_step * timing.period * whole
    peaks = [route.peak(send.models * whole) for send in timing.sends]
    return SyncPrice(
        way=way,
        timing=timing,
        compute=compute,
        exchanges=times,
        period=period,
        utilisation=way.sync.work * _training_share(way, trained, compute, period / timing.period),
        peak={pair: max(peak[pair] for peak in peaks) for pair in peaks[0]},
        mean={pair: sent / period for pair, sent in route.sent(amount).items()},
        device_bytes=kept_bytes(way, timing, trained),
        host_bytes=way.sync.host_copies * FULL * trained.model.params / trained.shards,
    )


def sent_bytes(way: Way, trained: Trained) -> float:
    """Return what an exchange of all that a method sends takes on the wire. [byte]"""
    sent = way.sync.parts(trained.model, trained.replicas).sent
    return float(trained.model.params) * sent * way.packed.sent_bytes


def kept_bytes(way: Way, timing: SyncTiming, trained: Trained) -> float:
    """Return what a method keeps on an accelerator beside training, less what it does not train. [byte]"""
    parts = way.sync.parts(trained.model, trained.replicas)
    each = device_copies(way, timing) - untrained_copies(parts)
    return FULL * each * trained.model.params / trained.shards


def untrained_copies(parts: Parts) -> float:
    """Return the copies of the parameters in 4 bytes that a replica spares by what it does not train. [-]"""
    return (1.0 - parts.trained) * TRAINED / FULL


def timing_of(way: Way, trained: Trained) -> SyncTiming:
    """Return when a way exchanges at the sites.

    What goes at every step is whole in the last micro-batch alone, so only that one hides it; where gradients
    go after each micro-batch, each hides its own.
    """
    timing = way.sync.timing(way.steps, trained.model.num_layers, way.delay)
    if way.sync.axis != "data":
        return timing
    sends = tuple(send._replace(window=send.window / trained.micro_batches) for send in timing.sends)
    often = trained.reductions if way.sync.exact else 1
    return replace(timing, period=timing.period / often, sends=sends)


def device_copies(way: Way, timing: SyncTiming) -> float:
    """Return the copies of the parameters in 4 bytes that accelerators hold beside training. [-]"""
    passing = way.sync.passing_copies / timing.fragments
    return way.sync.device_copies + passing + way.packed.feedback.copies


def route_of(way: Way, profile: SitesProfile) -> Route:
    """Return the links that a way's exchanges take."""
    if way.sync.pattern == "pair":
        return pair_route(profile)
    return ring_route(profile, way.sync.pattern == "ring" and way.packed.how.sums)


def step_compute(way: Way, timing: SyncTiming, trained: Trained) -> float:
    """Return the mean time of an inner step without exchanges. [s]

    Replicas that wait take as long as the slowest of them, whose steps vary; those that do not, as long as
    their mean rate says.
    """
    sites, work = trained.profile.sites, step_seconds(way, trained)
    if not way.sync.waits:
        batches = {one.name: one.replicas * trained.batches.get(one.name, 1.0) for one in sites}
        return sum(batches.values()) / sum(batch / work[name] for name, batch in batches.items())
    met = 2 if way.sync.pattern == "pair" else trained.replicas
    slowest = slowest_of(min(met, trained.replicas))
    times = (float(slowest_seconds(work[one.name], timing.period, one.deviation, slowest)) for one in sites)
    return max(times) / timing.period


def step_seconds(way: Way, trained: Trained) -> Mapping[str, float]:
    """Return the mean time of a step at each site, as a method computes it. [s]"""
    parts, sync = way.sync.parts(trained.model, trained.replicas), way.sync
    beside = parts.touched * float(trained.model.params) / trained.shards / trained.memory_rate
    return {name: sync.work * seconds + beside for name, seconds in trained.seconds.items()}


def _training_share(way: Way, trained: Trained, compute: float, step: float) -> float:
    """Return the share of a step in which accelerators train: all of it but exchanges where none waits."""
    if not way.sync.waits:
        return compute / step
    used = sum(one.gpus * trained.seconds[one.name] for one in trained.profile.sites)
    return used / step / trained.profile.gpus


def _price_stages(way: Way, trained: Trained) -> SyncPrice:
    """Return what one pipeline over the sites costs: each holds layers by its speed, or by how many visit it.

    A site's part of a step is its share of the layers of the whole batch. The slowest of parts and links sets
    the beat, and the pipeline fills and drains once.
    """
    sites, route = trained.profile.sites, chain_route(trained.profile)
    rates = sum(one.replicas / trained.seconds[one.name] for one in sites)
    compute = way.sync.work * trained.replicas / rates
    size = min(ACTIVATION, way.packed.sent_bytes)
    amount = way.sync.work * float(boundary_bytes(trained.tokens, float(trained.model.hidden), size))
    beats = float(trained.micro_batches * trained.replicas)
    link = route.seconds(amount / beats) * beats - (beats - 1.0) * route.turns * route.latency
    fill = (len(sites) - 1.0) / beats
    period = max(compute, link) * (1.0 + fill) + 2.0 * (len(sites) - 1.0) * link / beats
    timing = way.sync.timing(way.steps, trained.model.num_layers, way.delay)
    return SyncPrice(
        way=way,
        timing=timing,
        compute=compute,
        exchanges=(link,),
        period=period,
        utilisation=compute / period,
        peak=route.peak(amount),
        mean={pair: sent / period for pair, sent in route.sent(amount).items()},
        device_bytes=0.0,
        host_bytes=0.0,
    )
