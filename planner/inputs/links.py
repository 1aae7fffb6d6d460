"""Links: the fast ones that join a domain of accelerators, and the slow one between islands of a cluster."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ValidationInfo, field_validator

from planner.formulas.collectives import Tier
from planner.inputs.bounds import Delay, Efficiency, Rate
from planner.inputs.record import Positive, Record, Seconds, Sourced

WHOLE: Final = 1.0 + 1e-6
"""All of a rate, but for rounding. [-]"""

LINK: Final = "link between islands"
"""What answers call it."""
LONGEST_WAY: Final = 5.0
"""One way over a link between islands that none takes longer than. [s]"""


def _way(value: Sourced) -> Sourced:
    if value > LONGEST_WAY:
        raise ValueError(f"at most {LONGEST_WAY:g} s, such as 30 ms")
    return value


class Islands(Record):
    """Equal islands of a cluster.

    ``gpus`` are the accelerators of one, in the order of their ranks; ``bandwidth`` is what leaves an island
    for the next, one direction, which all of its accelerators share; ``latency`` is one way.
    """

    gpus: Positive
    bandwidth: Rate
    latency: Annotated[Seconds, AfterValidator(_way)]

    def tier(self, port: float) -> Tier:
        """Return the link as all accelerators of an island share it; ``port`` is what one sends. [byte/s]"""
        return Tier(
            name=LINK,
            domain=float("inf"),
            bandwidth=min(port, float(self.bandwidth) / self.gpus),
            latency=float(self.latency),
            pair_bandwidth=min(port, float(self.bandwidth)),
            shared=float(self.bandwidth),
        )


class ScaleUp(Record):
    """The fast links that join a domain of accelerators.

    The efficiencies are the shares of the link rate that large collectives reach, over the whole domain
    and between two members, ``reduced_efficiency`` that of an all-reduce over the whole domain where a switch
    adds up; ``ramp`` is the slow start of their ring passes, where it was measured.
    """

    name: str
    aliases: tuple[str, ...] = ()
    link: str
    topology: Literal["switch", "mesh", "torus", "host"] = "switch"
    domain: Positive
    bandwidth: Rate
    pair_bandwidth: Rate
    efficiency: Efficiency
    pair_efficiency: Efficiency | None = None
    reduced_efficiency: Efficiency | None = None
    latency: Delay
    ramp: Delay | None = None
    note: str = ""

    @field_validator("pair_bandwidth")
    @classmethod
    def _within_all_links(cls, value: Sourced, info: ValidationInfo) -> Sourced:
        links = info.data.get("bandwidth")
        if links is not None and value > WHOLE * links:
            raise ValueError(f"at most the bandwidth of all links of an accelerator, {links.text}")
        return value

    @property
    def between_devices(self) -> bool:
        """Whether these are links of the devices' own, such as NVLink, and no PCIe."""
        return self.topology != "host" and not self.link.lower().startswith("pci")

    @property
    def tier(self) -> Tier:
        """The links at the rates that collectives reach."""
        pair_share = self.efficiency if self.pair_efficiency is None else self.pair_efficiency
        return Tier(
            name=self.link,
            domain=float(self.domain),
            bandwidth=float(self.bandwidth * self.efficiency),
            latency=float(self.latency),
            pair_bandwidth=float(self.pair_bandwidth * pair_share),
            host_staged=self.topology == "host",
            ramp=0.0 if self.ramp is None else float(self.ramp),
            reduced=float(self.bandwidth * (self.reduced_efficiency or 0.0)),
        )
