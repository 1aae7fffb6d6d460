"""The cluster of a run: its accelerator's usual one, with the node size and network that the row states."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from planner.calibrate.runs.networks import FAMILIES, Stated, stated_network
from planner.inputs.hardware import HardwareProfile, Network, Node
from planner.inputs.record import Sourced
from planner.units import GB

BOARD: Final = 4
"""Accelerators of the smaller of NVIDIA's two boards with NVLink. [-]"""

Networks = Callable[[str], Network | None]
"""Finds a network kind by name."""


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
    node, stated = _resized(pool.node, gpus_per_node), stated_network(interconnect, gpus_per_node)
    changes: dict[str, object] = {"nics": stated.ports} if stated.ports else {}
    if stated.rate:
        text = f"{stated.rate * 8 / GB:g} Gbit/s"
        changes["nic_rate"] = Sourced(stated.rate, text, "the run's row", "user")
    changed = {
        "node": node.model_copy(update=changes) if changes else node,
        "network": _network(stated, pool.network, networks),
        "gpus": None,
    }
    return usual.model_copy(update={"pools": (pool.model_copy(update=changed),)})


def on_board(usual: HardwareProfile, gpus_per_node: int) -> HardwareProfile:
    """Return a cluster whose nodes of four have no NVLink switch, where its usual ones of eight have.

    Such a board has no switch: a third of an accelerator's links go to each of the three others.

    References
    ----------
    .. [1] W. Nakhleh, "Introducing NVIDIA HGX H100," NVIDIA Technical Blog, 2022: HGX H100 4-GPU,
       https://developer.nvidia.com/blog/introducing-nvidia-hgx-h100-an-accelerated-server-platform-for-ai-and-high-performance-computing/.
    """
    pool, links = usual.pool, usual.pool.node.scaleup
    if gpus_per_node != BOARD or links.topology != "switch" or links.domain != pool.node.accelerators:
        return usual
    if not links.link.startswith("nvlink"):
        return usual
    text = f"{links.bandwidth / GB / (BOARD - 1):g} GB/s"
    third = Sourced(float(links.bandwidth) / (BOARD - 1), text, links.bandwidth.source, "derived")
    board = {"topology": "mesh", "pair_bandwidth": third, "pair_efficiency": None, "ramp": None}
    node = pool.node.model_copy(update={"scaleup": links.model_copy(update=board)})
    return usual.model_copy(update={"pools": (pool.model_copy(update={"node": node}),)})


def named_in(words: str, cluster: HardwareProfile) -> bool:
    """Whether words name a cluster, with any signs between the words of its name."""
    spelled = (re.sub(r"[^a-z0-9]+", "[^a-z0-9]*", name.lower()) for name in (cluster.name, *cluster.aliases))
    return any(re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9])", words.lower()) for name in spelled)


def of_family(family: str, network: Network | None) -> bool:
    """Whether a network is one of a family; Ethernet is RoCE where the usual cluster has that."""
    kinds = ("ethernet", "roce") if family == "ethernet" else (family,)
    return network is not None and network.kind in kinds


def _network(stated: Stated, usual: Network | None, networks: Networks) -> Network | None:
    """Return the network of a row: the kind that it states, the usual one of its family, or the usual one."""
    if not stated.network or (stated.network in FAMILIES and of_family(stated.network, usual)):
        return usual
    return networks(FAMILIES.get(stated.network, stated.network)) or usual


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
