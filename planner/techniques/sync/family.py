"""How copies of a model on slow links keep together: what each sends when, to whom, hidden behind what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from planner.dataclasses import dataclass, field
from planner.formulas.learning_laws import equal_loss_compute, power_law
from planner.inputs.model import ModelSpec

Pattern = Literal["ring", "gather", "pair", "stages", "pipeline"]
"""Who sends to whom: a ring all-reduce, all to all, one random peer, a peer of the next stage, or the next
stage of one job's pipeline."""
Axis = Literal["outer", "data", "stages"]
AXES: Final[Mapping[Axis, str]] = {
    "outer": "outer data parallelism",
    "data": "data parallelism",
    "stages": "pipeline stages",
}
"""Which axis of a plan crosses sites."""

BACKWARD: Final = 2.0 / 3.0
"""Share of a step that is its backward pass, which costs twice the forward. [-]"""
FORWARD: Final = 1.0 - BACKWARD
"""Share of a step that is its forward pass. [-]"""

LAW: Final = "arXiv:2503.09799, laws at H = 30 and 20 tokens a parameter"
LOSS_LAWS: Final = {
    0: (18.129, -0.0953),
    1: (18.363, -0.0961),
    2: (18.768, -0.0969),
    4: (19.762, -0.0992),
    8: (21.051, -0.1018),
}
"""Coefficient and exponent of the loss by replicas, 0 for data parallelism (arXiv:2503.09799, table 2)."""
JOINT_LAW: Final = (19.226, -0.0985, 0.0116)
"""The same with an exponent of the replicas (arXiv:2503.09799, sec. 4.3)."""
BATCH_LAW: Final = (14.521, 0.4695, 0.3399)
"""Best batch in tokens: coefficient, exponents of size and replicas (arXiv:2503.09799, sec. 4.3)."""
FITTED: Final = (35e6, 2.4e9)
"""Sizes that the laws were fitted to. [element]"""
MEASURED: Final = {1: 2.086 / 2.090, 2: 2.086 / 2.090, 4: 2.096 / 2.090}
"""Loss at 10 B over that of data parallelism (arXiv:2503.09799, table 5): beyond the fit no law is lower."""


class Send(NamedTuple):
    """One exchange.

    ``models`` is how much of the model goes, ``window`` the inner steps after its start for which nobody
    waits for the result, ``every`` after how many periods it goes. [-]
    """

    models: float
    window: float
    every: int = 1


@dataclass(frozen=True)
class SyncTiming:
    """When a method exchanges."""

    period: float
    """Inner steps from one exchange to the next. [-]"""
    sends: tuple[Send, ...]
    """What goes in each period."""
    fragments: int = 1
    """Parts of the model that take turns. [-]"""
    delay: int = 0
    """Inner steps after which a part's result is used. [-]"""

    @property
    def models_per_step(self) -> float:
        """Whole models exchanged for each inner step. [-]"""
        return sum(send.models / send.every for send in self.sends) / self.period


@dataclass(frozen=True)
class Penalty:
    """What a method costs in learning, beside exact data parallelism."""

    kind: Literal["none", "law", "range", "unknown"]
    """``none``: it computes the same; ``law``: by the scaling laws of DiLoCo; ``range``: printed ratios of a
    quality that no compute is known to buy back; ``unknown``."""
    text: str
    """What was seen, with its range."""
    source: str
    """Where."""

    def compute(self, params: float, replicas: int) -> float | None:
        """Return times the compute to the same loss; None where nobody knows."""
        if self.kind == "none" or replicas < 2:
            return 1.0
        if self.kind != "law":
            return None
        return max(1.0, float(equal_loss_compute(loss_ratio(params, replicas), LOSS_LAWS[0][1])))


def loss_ratio(params: float, replicas: int) -> float:
    """Return the loss of DiLoCo over that of data parallelism at one size and 20 tokens a parameter.

    Between fitted numbers of replicas the next larger one's law holds, beyond eight the joint law. Beyond the
    fitted sizes the ratio at their end stands, or the one measured at 10 B where it is higher.
    """
    size = float(np.clip(params, *FITTED))
    exact = power_law(size, *LOSS_LAWS[0])
    law = next((count for count in sorted(LOSS_LAWS) if count >= replicas), None)
    if law is None:
        scale, exponent, by_replicas = JOINT_LAW
        joint = power_law(size, scale, exponent) * power_law(float(replicas), 1.0, by_replicas)
        eight = float(power_law(size, *LOSS_LAWS[8]) / exact)
        return max(eight, float(joint / exact))
    ratio = float(power_law(size, *LOSS_LAWS[law]) / exact)
    return max(ratio, MEASURED.get(law, 0.0)) if params > FITTED[1] else ratio


def best_batch_tokens(params: float, replicas: int) -> float:
    """Return the batch over all replicas at which DiLoCo learned best, on 20 tokens a parameter. [-]"""
    scale, exponent, by_replicas = BATCH_LAW
    one = power_law(params, scale, exponent)
    return float(one * power_law(float(replicas), 1.0, by_replicas))


@dataclass(frozen=True)
class Parts:
    """What of a model a method sends and trains."""

    sent: float = 1.0
    """What goes in an exchange of the whole, over the whole. [-]"""
    trained: float = 1.0
    """Share of the parameters that have a gradient and optimizer states on a replica. [-]"""
    touched: float = 0.0
    """Bytes that a step moves in device memory for each parameter beside its passes. [byte/element]"""
    lacks: str = ""
    """What a model has to have and does not."""


def whole_model(model: ModelSpec, replicas: int) -> Parts:
    """Return that all of the model is sent and trained."""
    return Parts()


EXACT: Final = Penalty("none", "computes what one cluster would", "exact")


@dataclass(frozen=True)
class Sync:
    """One way for replicas to keep together."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    sends: str
    """What it sends when, and to whom."""
    hidden: str
    """Behind what."""
    timing: Callable[[int, int, int], SyncTiming]
    """When it exchanges: from inner steps, layers of the model and steps of delay."""
    penalty: Penalty
    """What it costs in learning."""
    pattern: Pattern = "ring"
    """Who sends to whom."""
    device_copies: float = 0.0
    host_copies: float = 0.0
    """Copies of the parameters in 4 bytes that each replica holds beside its training, on the accelerators
    and in host memory. [-]"""
    passing_copies: float = 0.0
    """Copies on the accelerators of what is being exchanged, for as long as that takes. [-]"""
    delays: tuple[int, ...] = (0,)
    """Steps of delay that it may have, the least first."""
    inner: bool = True
    """Whether it takes inner steps; if not it exchanges at every step."""
    waits: bool = True
    """Whether replicas wait for the slowest."""
    work: float = 1.0
    """Compute of a step over that of exact training. [-]"""
    parts: Callable[[ModelSpec, int], Parts] = whole_model
    """What it sends and trains of a model that so many replicas have."""
    compress: str = "none"
    """The compression that is part of it, by name."""
    runners: Mapping[str, str] = field(default_factory=dict)
    """Runtimes that run it, and the method's name there."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def exact(self) -> bool:
        """Whether it computes what one cluster would."""
        return self.penalty.kind == "none"

    @property
    def axis(self) -> Axis:
        """The axis of a plan that crosses sites."""
        if self.pattern in ("stages", "pipeline"):
            return "stages"
        return "outer" if self.inner else "data"

    @property
    def costs(self) -> str:
        """What it costs in learning, in words."""
        return f"{self.penalty.text} ({self.penalty.source})" if not self.exact else self.penalty.text

    @property
    def run_by(self) -> str:
        """Who runs it, in words."""
        return ", ".join(self.runners) or "no runner known"


def blocking(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of one whole exchange after so many inner steps, for which all wait."""
    return SyncTiming(float(steps), (Send(1.0, 0.0),))


def period_late(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of one whole exchange that the next inner steps hide."""
    return SyncTiming(float(steps), (Send(1.0, float(steps)),), delay=steps)


def streamed(steps: int, layers: int, delay: int, fragment_layers: int = 3) -> SyncTiming:
    """Return the timing of fragments of some layers that take turns, each used some steps after it is sent.

    The number of fragments divides the inner steps, as torchft asks, and each has come before the next goes.
    """
    wanted = max(1, -(-layers // fragment_layers))
    fragments = max(count for count in range(1, wanted + 1) if steps % count == 0)
    period = steps // fragments
    late = min(delay, period - 1)
    return SyncTiming(float(period), (Send(1.0 / fragments, float(late)),), fragments, late)
