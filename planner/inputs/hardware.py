"""The cluster: accelerator, node and network as separate parts, composed into pools."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

from pydantic import Field, PositiveInt

from planner.formulas.collectives import Tier
from planner.inputs.record import ByteRate, Bytes, FlopRate, Price, Record, Seconds, Share, Sourced, Watts


class Accelerator(Record):
    """One device as the framework sees it: a GPU, or one die of a package with several."""

    name: str
    aliases: tuple[str, ...] = ()
    vendor: str
    arch: str
    compute_capability: float | None = None
    multiprocessors: PositiveInt | None = None
    memory: Bytes
    memory_visible: Bytes
    memory_bandwidth: ByteRate
    l2: Bytes | None = None
    peak: dict[str, FlopRate]
    power: Watts
    host_link: ByteRate
    price: Price | None = None
    price_date: str = ""
    matmul_efficiency: Share | None = None
    template: bool = False
    curves: str = ""
    note: str = ""
    sources: dict[str, str] = Field(default_factory=dict, exclude=True)


class ScaleUp(Record):
    """The fast links that join a domain of accelerators."""

    link: str
    topology: Literal["switch", "mesh", "torus", "host"] = "switch"
    domain: PositiveInt
    bandwidth: ByteRate
    pair_bandwidth: ByteRate
    efficiency: Share
    latency: Seconds


class Node(Record):
    """What one launcher starts: accelerators, fast links, host memory and network ports."""

    name: str
    aliases: tuple[str, ...] = ()
    accelerators: PositiveInt
    scaleup: ScaleUp
    host_memory: Bytes | None = None
    nics: PositiveInt | None = None
    nic_rate: ByteRate | None = None
    note: str = ""
    sources: dict[str, str] = Field(default_factory=dict, exclude=True)


class Network(Record):
    """What joins the nodes, as a kind: the share of line rate that collectives reach, and its latency."""

    name: str
    aliases: tuple[str, ...] = ()
    kind: str
    efficiency: Share
    latency: Seconds
    in_network_reduction: bool = False
    note: str = ""
    sources: dict[str, str] = Field(default_factory=dict, exclude=True)


class Pool(Record):
    """Equal nodes on one network; ``gpus`` is how many there are, where the profile says so."""

    accelerator: Accelerator
    node: Node
    network: Network
    gpus: PositiveInt | None = None
    price: Price | None = None
    price_date: str = ""

    @property
    def gpus_per_node(self) -> int:
        """Accelerators that the launcher sees in a node. [-]"""
        return self.node.accelerators

    @property
    def scaleup_domain(self) -> int:
        """Accelerators joined by the fast links. [-]"""
        return self.node.scaleup.domain

    @property
    def nic_bandwidth(self) -> float:
        """Line rate of the network ports, per accelerator and direction. [byte/s]"""
        if self.node.nics is None or self.node.nic_rate is None:
            return 0.0
        return self.node.nics * self.node.nic_rate / self.node.accelerators

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The interconnect from the fast links outwards, at the rates that collectives reach."""
        inner = self.node.scaleup
        tiers = [
            Tier(
                name=inner.link,
                domain=float(inner.domain),
                bandwidth=inner.bandwidth * inner.efficiency,
                latency=float(inner.latency),
                pair_bandwidth=inner.pair_bandwidth * inner.efficiency,
                host_staged=inner.topology == "host",
            )
        ]
        if self.nic_bandwidth:
            rate = self.nic_bandwidth * self.network.efficiency
            tiers.append(Tier(self.network.kind, math.inf, rate, float(self.network.latency), rate))
        return tuple(tiers)

    @property
    def price_per_hour(self) -> Sourced | None:
        """Dollars for one accelerator and hour, where known. [USD/h]"""
        price: Sourced | None = self.price if self.price is not None else self.accelerator.price
        return price


class HardwareProfile(Record):
    """A cluster: one pool in the common case, several for a mixed one."""

    name: str
    aliases: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = Field(min_length=1)
    note: str = ""

    @property
    def pool(self) -> Pool:
        """The first pool, which is the only one of a uniform cluster."""
        return self.pools[0]

    @property
    def template(self) -> bool:
        """Whether some accelerator is weakly sourced and asks to be measured first."""
        return any(pool.accelerator.template for pool in self.pools)
