"""The cluster: accelerator, node and network as separate parts, composed into pools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.formulas.collectives import Tier
from planner.inputs.bounds import Capability, Delay, Efficiency, Peaks, Power, Rate, Reached, Size
from planner.inputs.links import WHOLE, Islands, ScaleUp
from planner.inputs.record import Flag, Positive, Price, Record, Share, Sourced
from planner.numeric import Num, Truth
from planner.shown import Short
from planner.units import GB, GIB

with deferred():
    from planner.inputs import kernels as curves

if TYPE_CHECKING:
    from planner.formulas.kernels import Kernels


OWN_PRICE: Final = "--price"
"""Source of a price that the user gives beside a profile."""
LABELLED: Final = GIB / GB
"""What a device may show over its label, which may count 10^9 bytes for 2^30. [-]"""
HELD: Final = 0.6
"""Share of a dense peak that products reach at least, where nobody has measured it. [-]"""
DRIVER: Final = 0.1
"""Share of a device's memory that its driver keeps at most: it is 0.4 to 1.7% on those that ship. [-]"""
MIN_NODES: Final = 2
"""Nodes that a network joins at least. [-]"""

PriceKind = Literal["", "on demand", "spot", "reserved", "list"]


class Accelerator(Record):
    """One device as the framework sees it: a GPU, or one die of a package with several.

    ``memory`` is the label's, ``memory_visible`` what the device reports, ``memory_driver`` what driver and
    firmware keep of that for themselves; ``l2`` the last cache that all multiprocessors share; ``host_link``
    one direction; ``host_copy`` what copies over it reach, there and back and beside its neighbours', where
    that is less; ``cluster`` the usual cluster of a bare accelerator. What a vendor does not publish is None.
    """

    name: str
    aliases: tuple[str, ...] = ()
    vendor: str
    arch: str
    compute_capability: Capability | None = None
    multiprocessors: Positive | None = None
    memory: Size
    memory_visible: Size
    memory_driver: Size | None = None
    memory_bandwidth: Rate
    l2: Size | None = None
    peak: Peaks
    power: Power | None = None
    power_communicating: Power | None = None
    power_waiting: Power | None = None
    host_link: Rate | None = None
    host_copy: Rate | None = None
    price: Price | None = None
    price_date: str = ""
    price_seller: str = ""
    price_kind: PriceKind = ""
    matmul_efficiency: Efficiency | None = None
    training_share: Reached | None = None
    template: Flag = False
    cluster: str = ""
    curves: str = ""
    note: str = ""

    @field_validator("memory_visible")
    @classmethod
    def _within_the_label(cls, value: Sourced, info: ValidationInfo) -> Sourced:
        label = info.data.get("memory")
        if label is not None and value > LABELLED * label:
            raise ValueError(f"at most the memory of the device, {label.text}")
        return value

    @field_validator("memory_driver")
    @classmethod
    def _a_small_part(cls, value: Sourced | None, info: ValidationInfo) -> Sourced | None:
        seen = info.data.get("memory_visible")
        if value is not None and seen is not None and value > DRIVER * seen:
            raise ValueError(f"at most {DRIVER:.0%} of what the device reports, {seen.text}")
        return value

    @property
    def memory_usable(self) -> float:
        """Memory that processes may have: cudaMemGetInfo's total, PyTorch's capacity. [byte]

        What the driver keeps is ``Reserved`` in nvidia-smi(1), "FB Memory Usage".
        """
        return float(self.memory_visible) - float(self.memory_driver or 0.0)

    @field_validator("training_share")
    @classmethod
    def _within_the_peak(cls, value: Sourced | None, info: ValidationInfo) -> Sourced | None:
        reach = info.data.get("matmul_efficiency")
        held = HELD if reach is None else float(reach)
        if value is not None and value * held > WHOLE:
            most = math.floor(1000 / held) / 1000
            raise ValueError(f"at most {most:g}, since products alone reach {held:g} of the dense peak")
        return value

    @cached_property
    def kernels(self) -> Kernels:
        """What its kernels reach, at the rates that hours of work hold; read when first asked for."""
        return curves.known_kernels(self)


class Node(Record):
    """What one launcher starts: accelerators, fast links, host memory, disks, network ports.

    ``package`` joins the dies of one module, where those are devices. ``nvme`` is the size of all local disks
    together, ``nvme_read`` and ``nvme_write`` their rates, which all accelerators share.
    """

    name: str
    aliases: tuple[str, ...] = ()
    accelerators: Positive
    scaleup: ScaleUp
    package: ScaleUp | None = None
    host_memory: Size | None = None
    nvme: Size | None = None
    nvme_read: Rate | None = None
    nvme_write: Rate | None = None
    nics: Positive | None = None
    nic_rate: Rate | None = None
    note: str = ""


def _rising(table: dict[int, Sourced]) -> dict[int, Sourced]:
    if list(table) != sorted(table) or any(nodes < MIN_NODES for nodes in table):
        raise ValueError(f"numbers of nodes from {MIN_NODES} on, rising")
    return table


class Network(Record):
    """What joins the nodes, as a kind: the share of line rate that collectives reach, and its latency.

    ``crowd`` is what one collective reaches at most over so many nodes, whatever their ports carry.
    """

    name: str
    aliases: tuple[str, ...] = ()
    kind: str
    efficiency: Efficiency
    latency: Delay
    crowd: Annotated[dict[int, Rate], AfterValidator(_rising)] = Field(default_factory=dict)
    note: str = ""


def reached(share: Sourced | None) -> float:
    """Return a share, 1 where nobody has measured it. [-]"""
    return 1.0 if share is None else float(share)


class Calibration(Record):
    """The runs of a site's own that its shares were fitted to.

    ``runs`` is how many, ``runtimes`` those that they ran, ``band`` the error that 90% of them stay
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
    they are 1. ``calibration`` tells the runs that they were fitted to. ``islands`` are parts of the pool
    that slower links join, where the network does not reach all of it.
    """

    accelerator: Accelerator
    node: Node
    network: Network | None = None
    gpus: Positive | None = None
    price: Price | None = None
    price_date: str = ""
    price_seller: str = ""
    price_kind: PriceKind = ""
    compute_share: Reached | None = None
    scaleup_share: Reached | None = None
    network_share: Reached | None = None
    calibration: Calibration | None = None
    islands: Islands | None = None

    @field_validator("compute_share", "scaleup_share", "network_share")
    @classmethod
    def _within_the_rate(cls, value: Sourced | None, info: ValidationInfo) -> Sourced | None:
        if value is None or value <= 1:
            return value
        usual, of = _usual_share(str(info.field_name), info.data)
        if value * usual > WHOLE:
            most = math.floor(1000 / usual) / 1000
            raise ValueError(f"at most {most:g}, since the parts reach {usual:.3g} of {of} already")
        return value

    @field_validator("islands")
    @classmethod
    def _of_whole_nodes(cls, value: Islands | None, info: ValidationInfo) -> Islands | None:
        node = info.data.get("node")
        if value is not None and node is not None and value.gpus % node.accelerators:
            raise ValueError(f"islands of whole nodes: a multiple of {node.accelerators} gpus")
        return value

    @property
    def gpus_per_node(self) -> int:
        """Accelerators that the launcher sees in a node. [-]"""
        return self.node.accelerators

    @property
    def scaleup_domain(self) -> int:
        """Accelerators joined by the fast links. [-]"""
        return self.node.scaleup.domain

    def joins(self, ranks: Num) -> Truth:
        """Return whether so many neighbours reach each other's memory: over links of their own, no PCIe.

        References
        ----------
        .. [1] TransformerEngine d0067d0d, ``examples/pytorch/comm_gemm_overlap/README.md``: a group is on one
           node, joined by NVLink; ``userbuffers-host.cpp``: or in one NVLink domain.
        .. [2] PyTorch 029e4735, ``torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu``: each rank
           maps the memory of the others, on one host or in one NVLink domain.
        """
        return (ranks <= self.scaleup_domain) & self.node.scaleup.between_devices

    def segment(self, nodes: int) -> int:
        """Nodes that a job of ``nodes`` takes of one scale-up domain, where that joins several. [-]

        Equal parts of each domain, as large as can be, where they fill half of one; else one domain after the
        other is filled.

        References
        ----------
        .. [1] NVIDIA, Megatron-Bridge, ``scripts/performance/utils/executors.py``: the largest number of at
           most 18 nodes that divides the job, as Slurm's ``--segment``.
        """
        joined = self.scaleup_domain // self.gpus_per_node
        if nodes <= joined:
            return nodes
        divisor = max(size for size in range(1, joined + 1) if nodes % size == 0)
        return divisor if 2 * divisor >= joined else joined

    def fast_ranks(self, gpus: int) -> int:
        """Consecutive ranks of a job that fast links join: a domain, or the part of one that it takes. [-]"""
        node, whole = self.gpus_per_node, self.scaleup_domain
        return node * self.segment(-(-gpus // node)) if node < whole < gpus else whole

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
            reach = reached(self.network_share)
            crowd = tuple(map(float, self.network.crowd))
            most = tuple(float(known) * reach for known in self.network.crowd.values())
            latency = float(self.network.latency)
            far, islands = math.inf, self.islands
            domain = far if islands is None else float(islands.gpus)
            tiers.append(Tier(self.network.kind, domain, rate, latency, rate, crowd=crowd, crowd_rates=most))
            tiers += [] if islands is None else [islands.tier(rate)]
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
        for name in ("nic_rate", "host_memory", "nvme", "nvme_read", "nvme_write"):
            whole: Sourced | None = getattr(node, name)
            if whole is not None:
                text = f"{share:g} of {whole.text}"
                changes[name] = Sourced(whole * share, text, whole.source, "derived")
        return self.model_copy(update={"node": node.model_copy(update=changes)})


def _usual_share(field: str, parts: Mapping[str, Any]) -> tuple[float, str]:
    """Return what the parts of a pool reach alone of the rate of a share, and the name of the rate."""
    if field == "network_share" and parts.get("network") is not None:
        return float(parts["network"].efficiency), "a port's line rate"
    if field == "scaleup_share" and parts.get("node") is not None:
        links = parts["node"].scaleup
        return float(max(links.efficiency, links.pair_efficiency or 0.0)), "the links' rate"
    if field == "compute_share" and parts.get("accelerator") is not None:
        return _held_share(parts["accelerator"]), "the dense peak"
    return 1.0, "its rate"


def _held_share(accelerator: Accelerator) -> float:
    """Return the largest share of a dense peak that an accelerator's products hold in training. [-]"""
    kernels, peaks = accelerator.kernels, accelerator.peak
    held = [curve.rate / float(peaks[name]) for name, curve in kernels.gemm.items() if name in peaks]
    return max(held, default=1.0) * reached(accelerator.training_share)


def _some(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    if not pools:
        raise ValueError("at least one pool")
    return pools


class HardwareProfile(Short, Record):
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

    def with_price(self, usd_per_hour: float) -> HardwareProfile:
        """Return the cluster at a price of the user's own for one accelerator and hour. [USD/h]"""
        price = Sourced(usd_per_hour, f"{usd_per_hour!r} USD/h", OWN_PRICE, "user")
        told = {"price": price, "price_date": "", "price_seller": "", "price_kind": ""}
        return self.model_copy(update={"pools": tuple(pool.model_copy(update=told) for pool in self.pools)})

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
