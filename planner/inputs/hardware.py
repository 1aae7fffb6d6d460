"""The cluster: accelerator, node and network as separate parts, composed into pools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator

from planner.errors import InputError, Problem
from planner.formulas.collectives import Tier
from planner.inputs.record import (
    ByteRate,
    Bytes,
    Flag,
    FlopRate,
    Positive,
    Price,
    Record,
    Seconds,
    Share,
    Sourced,
    Watts,
)

if TYPE_CHECKING:
    from planner.formulas.kernels import Kernels


def _more_than_zero(value: Sourced) -> Sourced:
    if value <= 0:
        raise ValueError("more than zero")
    return value


def _at_most_all(value: Sourced) -> Sourced:
    if not 0 < value <= 1:
        raise ValueError("a share above 0 and at most 1, such as 0.8 or 80%")
    return value


Size = Annotated[Bytes, AfterValidator(_more_than_zero)]
Rate = Annotated[ByteRate, AfterValidator(_more_than_zero)]
Efficiency = Annotated[Share, AfterValidator(_at_most_all)]


def _peaks(table: dict[str, Sourced]) -> dict[str, Sourced]:
    if not table or not all(table.values()):
        raise ValueError("the dense peak of at least one precision, more than zero")
    return table


class Accelerator(Record):
    """One device as the framework sees it: a GPU, or one die of a package with several.

    ``memory`` is the label's, ``memory_visible`` what the device reports; ``l2`` the last cache that all
    multiprocessors share; ``host_link`` one direction; ``cluster`` the usual cluster of a bare accelerator.
    What a vendor does not publish is None.
    """

    name: str
    aliases: tuple[str, ...] = ()
    vendor: str
    arch: str
    compute_capability: float | None = None
    multiprocessors: Positive | None = None
    memory: Size
    memory_visible: Size
    memory_bandwidth: Rate
    l2: Size | None = None
    peak: Annotated[dict[str, FlopRate], AfterValidator(_peaks)]
    power: Watts | None = None
    power_communicating: Watts | None = None
    power_waiting: Watts | None = None
    host_link: Rate | None = None
    price: Price | None = None
    price_date: str = ""
    matmul_efficiency: Efficiency | None = None
    training_share: Share | None = None
    template: Flag = False
    cluster: str = ""
    curves: str = ""
    note: str = ""

    @cached_property
    def kernels(self) -> Kernels:
        """What its kernels reach, at the rates that hours of work hold; read when first asked for."""
        from planner.inputs.kernels import load_kernels

        return load_kernels(self)


class ScaleUp(Record):
    """The fast links that join a domain of accelerators.

    The efficiencies are the shares of the link rate that large collectives reach, over the whole domain
    and between two members; ``ramp`` is the slow start of their ring passes, where it was measured.
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
    latency: Seconds
    ramp: Seconds | None = None
    note: str = ""

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
        )


class Node(Record):
    """What one launcher starts: accelerators, fast links, host memory and network ports.

    ``package`` joins the dies of one module, where those are devices of their own.
    """

    name: str
    aliases: tuple[str, ...] = ()
    accelerators: Positive
    scaleup: ScaleUp
    package: ScaleUp | None = None
    host_memory: Size | None = None
    nics: Positive | None = None
    nic_rate: Rate | None = None
    note: str = ""


class Network(Record):
    """What joins the nodes, as a kind: the share of line rate that collectives reach, and its latency."""

    name: str
    aliases: tuple[str, ...] = ()
    kind: str
    efficiency: Efficiency
    latency: Seconds
    in_network_reduction: Flag = False
    note: str = ""


def reached(share: Sourced | None) -> float:
    """Return a share, 1 where nobody has measured it. [-]"""
    return 1.0 if share is None else float(share)


class Calibration(Record):
    """The runs of a site's own that its shares were fitted to.

    ``runs`` is how many, ``runtimes`` those that they ran, ``band`` the error that nine of ten of them stay
    below, each priced with shares fitted without it, where there are enough of them to say; ``missed`` the
    largest error that the fit left; ``extrapolated`` the mean share of their steps outside the fitted range
    of kernel curves.
    """

    runs: Positive
    runtimes: tuple[str, ...]
    band: Share | None = None
    missed: Share | None = None
    extrapolated: Share | None = None


class Pool(Record):
    """Equal nodes on one network; ``gpus`` is how many there are, where the profile says so.

    Without a network, or without ports, there is nothing beyond the scale-up domain. The three shares are
    what a site reaches of the rates that its parts promise: kernels, fast links and network; unmeasured,
    they are 1. ``calibration`` tells the runs that they were fitted to.
    """

    accelerator: Accelerator
    node: Node
    network: Network | None = None
    gpus: Positive | None = None
    price: Price | None = None
    price_date: str = ""
    compute_share: Share | None = None
    scaleup_share: Share | None = None
    network_share: Share | None = None
    calibration: Calibration | None = None

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
        if self.network is None or self.node.nics is None or self.node.nic_rate is None:
            return 0.0
        return float(self.node.nics * self.node.nic_rate / self.node.accelerators)

    @property
    def max_gpus(self) -> float:
        """Accelerators that the pool has or can join: infinite where the network goes on. [-]"""
        if self.gpus is not None:
            return float(self.gpus)
        return math.inf if self.nic_bandwidth else float(self.scaleup_domain)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The interconnect from the fast links outwards, at the rates that collectives reach."""
        node = self.node
        inner = [links.tier for links in (node.package, node.scaleup) if links is not None]
        tiers = [tier.scaled(reached(self.scaleup_share)) for tier in inner]
        if self.network is not None and self.nic_bandwidth:
            rate = self.nic_bandwidth * float(self.network.efficiency) * reached(self.network_share)
            tiers.append(Tier(self.network.kind, math.inf, rate, float(self.network.latency), rate))
        return tuple(tiers)

    @property
    def compute_rate(self) -> float:
        """Share of the kernels' stand-alone rate that training reaches here. [-]"""
        return reached(self.accelerator.training_share) * reached(self.compute_share)

    @property
    def price_per_hour(self) -> Sourced | None:
        """Dollars for one accelerator and hour, where known. [USD/h]"""
        price: Sourced | None = self.price if self.price is not None else self.accelerator.price
        return price

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with fields changed, and tiers that follow from them."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("tiers", None)
        return copy

    def with_node_size(self, per_node: int) -> Pool:
        """Return the pool with so many accelerators of each node in use, and their share of the ports."""
        node, share = self.node, per_node / self.node.accelerators
        inside = node.scaleup.domain <= node.accelerators
        domain = min(node.scaleup.domain, per_node) if inside else node.scaleup.domain
        changes: dict[str, Any] = {
            "accelerators": per_node,
            "scaleup": node.scaleup.model_copy(update={"domain": domain}),
        }
        for name in ("nic_rate", "host_memory"):
            whole: Sourced | None = getattr(node, name)
            if whole is not None:
                text = f"{share:g} of {whole.text}"
                changes[name] = Sourced(whole * share, text, whole.source, "derived")
        return self.model_copy(update={"node": node.model_copy(update=changes)})


def _some(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    if not pools:
        raise ValueError("at least one pool")
    return pools


class HardwareProfile(Record):
    """A cluster: one pool in the common case, several for a mixed one."""

    name: str
    aliases: tuple[str, ...] = ()
    pools: Annotated[tuple[Pool, ...], AfterValidator(_some)]
    note: str = ""

    @property
    def pool(self) -> Pool:
        """The first pool, which is the only one of a uniform cluster."""
        return self.pools[0]

    @property
    def template(self) -> bool:
        """Whether some accelerator is weakly sourced and asks to be measured first."""
        return any(pool.accelerator.template for pool in self.pools)

    def with_node_size(self, per_node: int) -> HardwareProfile:
        """Return the cluster with so many accelerators of each node in use, and their share of the ports.

        Raises
        ------
        InputError
            If a node cannot be divided so.
        """
        has = self.pool.gpus_per_node
        if has % per_node:
            sizes = (size for size in range(1, has + 1) if has % size == 0)
            near = min(sizes, key=lambda size: abs(size - per_node))
            expected = f"a divisor of the {has} accelerators in a node of {self.name}"
            raise InputError(Problem("--gpus-per-node", str(per_node), expected, str(near)))
        return self.model_copy(update={"pools": tuple(pool.with_node_size(per_node) for pool in self.pools)})
