"""The cluster of a run: its accelerator's usual one, with the node size and network that the row states."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from planner.inputs.hardware import HardwareProfile, Network, Node
from planner.inputs.record import Sourced
from planner.units import GB, KB

Networks = Callable[[str], Network | None]
"""Finds a network kind by name."""

NETWORK_WORDS: Final = (
    (re.compile(r"slingshot"), "slingshot-11"),
    (re.compile(r"omni.?path"), "omni-path-100"),
    (re.compile(r"efa.?v?3"), "efa-v3"),
    (re.compile(r"efa.?v?2"), "efa-v2"),
    (re.compile(r"\befa"), "efa-v1"),
    (re.compile(r"tcpxo"), "gcp-tcpxo"),
    (re.compile(r"tcpx"), "gcp-tcpx"),
    (re.compile(r"spectrum.?x"), "spectrum-x"),
    (re.compile(r"roce"), "roce"),
    (re.compile(r"xdr"), "infiniband-xdr"),
    (re.compile(r"ndr|quantum-2"), "infiniband-ndr"),
    (re.compile(r"hdr"), "infiniband-hdr"),
    (re.compile(r"edr"), "infiniband-edr"),
    (re.compile(r"infiniband|\bib\b"), "infiniband-hdr"),
    (re.compile(r"ethernet|gbe\b|\btcp\b"), "ethernet-tcp"),
)
"""Words of the column ``interconnect`` and the network kind that each means, the most particular first."""

_RATE: Final = re.compile(r"(?:(\d+)\s*x\s*)?(\d+(?:\.\d+)?)\s*([gt])b(?:it|ps|/s|it/s|e)?\b")
_GENERATIONS: Final = (
    (r"hdr-?100|edr", 100.0),
    (r"ndr-?200|hdr", 200.0),
    (r"ndr", 400.0),
    (r"xdr", 800.0),
    (r"fdr", 56.0),
    (r"slingshot-?10", 100.0),
    (r"slingshot", 200.0),
)
"""Words for a generation of ports and the line rate of one, the most particular first. [Gbit/s]"""
_OMNI_PATH_GBIT: Final = 100.0
"""Line rate of a first-generation Omni-Path port. [Gbit/s]"""


def network_name(interconnect: str) -> str:
    """Return the network kind that a row's words mean, empty where they name none.

    Examples
    --------
    >>> network_name("nvlink3 + 8x200Gb HDR IB"), network_name("nvlink3 + 4x Omni-Path")
    ('infiniband-hdr', 'omni-path-100')
    """
    text = interconnect.lower()
    return next((name for words, name in NETWORK_WORDS if words.search(text)), "")


def ports(interconnect: str, gpus_per_node: int) -> tuple[int, float] | None:
    """Return the network ports of a node and the rate of each, or None where a row does not say. [-, byte/s]

    A rate per node is one port; a rate per GPU is a port for each. A generation of ports tells their rate;
    their number is then 0 where it is not stated.

    Examples
    --------
    >>> ports("nvlink3 + 8x200Gb HDR IB", 8), ports("400 Gb/s IB per node", 16), ports("nvlink3", 8)
    ((8, 25000000000.0), (1, 50000000000.0), None)
    """
    text = interconnect.lower().replace("gbps", "gb/s")
    rates = [
        match
        for match in _RATE.finditer(text)
        if not re.search("[GT]B", interconnect[match.start() : match.end() + 2])
    ]
    if rates:
        count, rate, unit = rates[-1].groups()
        number = int(count) if count else gpus_per_node if "per gpu" in text else 1
        return number, float(rate) * (KB if unit == "t" else 1.0) * GB / 8
    if "omni" in text:
        several = re.search(r"(\d+)\s*x\s*omni", text)
        return int(several[1]) if several else 1, _OMNI_PATH_GBIT * GB / 8
    return _ports_by_generation(text)


def _ports_by_generation(text: str) -> tuple[int, float] | None:
    for words, gbit in _GENERATIONS:
        if found := re.search(rf"(?:(\d+)\s*x\s*(?:ib |infiniband )?)?(?:{words})", text):
            return int(found[1] or 0), gbit * GB / 8
    return None


@lru_cache(maxsize=1024)
def _links(scaleup: str, nics: int | None, rate: float, network: str) -> str:
    ports = f"{nics} x {rate * 8 / GB:g} Gbit/s" if nics and rate else ""
    return " ".join(filter(None, (scaleup, "+" if ports or network else "", ports, network)))


def links(hardware: HardwareProfile) -> str:
    """Return the links of a cluster in the words of the column ``interconnect``."""
    node, network = hardware.pool.node, hardware.pool.network
    rate = float(node.nic_rate) if node.nic_rate is not None else 0.0
    return _links(node.scaleup.name, node.nics, rate, "" if network is None else network.name)


def run_cluster(
    usual: HardwareProfile, gpus_per_node: int, interconnect: str, networks: Networks
) -> HardwareProfile:
    """Return the usual cluster with the node size and network of a row.

    Parameters
    ----------
    usual : HardwareProfile
        The accelerator's usual cluster.
    gpus_per_node : int
        Accelerators that the launcher sees in a node. [-]
    interconnect : str
        The row's words.
    networks : callable
        Finds network kinds.
    """
    pool = usual.pool
    node = _resized(pool.node, gpus_per_node)
    if (stated := ports(interconnect, gpus_per_node)) is not None:
        count, rate = stated
        text = f"{rate * 8 / GB:g} Gbit/s"
        changes = {"nics": count or node.nics, "nic_rate": Sourced(rate, text, "the run's row", "user")}
        node = node.model_copy(update=changes)
    network = networks(network_name(interconnect)) if network_name(interconnect) else None
    changed = {"node": node, "network": network or pool.network, "gpus": None}
    return usual.model_copy(update={"pools": (pool.model_copy(update=changed),)})


def _resized(node: Node, accelerators: int) -> Node:
    if accelerators == node.accelerators:
        return node
    share = accelerators / node.accelerators
    domain = node.scaleup.domain if node.scaleup.domain > node.accelerators else accelerators
    changes: dict[str, object] = {
        "accelerators": accelerators,
        "scaleup": node.scaleup.model_copy(update={"domain": max(1, domain)}),
    }
    if node.nics:
        changes["nics"] = max(1, round(node.nics * share))
    return node.model_copy(update=changes)
