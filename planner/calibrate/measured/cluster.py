"""A hardware profile of the machine that was measured, every number with where it is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.calibrate.kernels.tables import Datasheet
from planner.calibrate.measured.links import Link, Sample, link_of
from planner.calibrate.measured.rows import Raw, best_rate, of_bench
from planner.inputs.hardware import DRIVER, Accelerator, HardwareProfile
from planner.inputs.load_hardware import hardware_folder, load_accelerator
from planner.inputs.shipped import names_and_aliases
from planner.units import MIB

LEAST_SHARE: Final = 0.001

MAKERS: Final = ("nvidia-", "amd-instinct-", "amd-", "intel-")
"""What drivers write before the name of a product."""

Part = dict[str, Any]


def known_accelerator(product: str) -> Accelerator | None:
    """Return the accelerator that ships under a product name such as ``NVIDIA H100 80GB HBM3``."""
    word = product.strip().lower().replace(" ", "-")
    index = names_and_aliases(hardware_folder("accelerators"))
    bare = next((word.removeprefix(maker) for maker in MAKERS if word.startswith(maker)), word)
    path = index.get(word) or index.get(bare)
    return load_accelerator(str(path)) if path else None


def quantity(value: str, standing: str = "measured") -> Part:
    """Return a number of the profile, cited as measured here."""
    return {"value": value, "source": "here", "standing": standing}


def rate_text(rate: float) -> str:
    """Return bytes a second as text.

    Examples
    --------
    >>> rate_text(53.2e9)
    '53.2 GB/s'
    """
    return f"{rate / 1e9:.4g} GB/s"


def accelerator_part(base: Accelerator, rows: Sequence[Raw], memory: float, curves: str) -> Part:
    """Return a known accelerator with what was measured of it."""
    part: Part = {
        "base": base.name,
        "curves": curves,
        "memory_visible": quantity(f"{memory / MIB:.0f} MiB"),
    }
    share = best_rate(of_bench(rows, "gemm", "bf16"), "flops") / float(base.peak.get("bf16", 1e30))
    if LEAST_SHARE < share <= 1:
        part["matmul_efficiency"] = quantity(f"{share:.4g}")
    link = host_rate(rows)
    names = ("host_link", "host_copy") if base.host_copy else ("host_link",)
    return part | ({name: quantity(rate_text(link)) for name in names} if link else {})


def driver_part(memory: float, usable: float | None) -> Part:
    """Return what a driver keeps of the memory that it reports; nothing where that is not told.

    A slice of a device has a total that is not its driver's.
    """
    if usable is None:
        return {}
    kept = memory - usable
    told = MIB <= kept <= DRIVER * memory
    return {"memory_driver": quantity(f"{kept / MIB:.0f} MiB") if told else None}


def host_rate(rows: Sequence[Raw]) -> float:
    """Rate of large copies between pinned memory and the device, 0 where none were made. [byte/s]

    What is moved out comes back: of two directions it is the rate that a copy there and back has.
    """
    ways = (of_bench(rows, "copies", variant=way) for way in ("to-device-pinned", "to-host-pinned"))
    rates = [rate for own in ways if (rate := best_rate(own, "bytes"))]
    return len(rates) / sum(1 / rate for rate in rates) if rates else 0.0


def unknown_accelerator(names: tuple[str, str], sheet: Datasheet, memory: float, curves: str) -> Part:
    """Return a device that no file describes, by its name here and its product name.

    Its peak and bandwidth follow from the best that was measured.
    """
    return {
        "name": names[0],
        "aliases": [names[1].strip().lower().replace(" ", "-")],
        "vendor": "unknown",
        "arch": "processor",
        "multiprocessors": int(sheet.multiprocessors),
        "memory": quantity(f"{memory / MIB:.0f} MiB"),
        "memory_visible": quantity(f"{memory / MIB:.0f} MiB"),
        "memory_bandwidth": quantity(rate_text(sheet.bandwidth), "estimated"),
        "peak": {"bf16": quantity(f"{sheet.peaks['bf16'] / 1e12:.4g} TFLOP/s", "estimated")},
        "curves": curves,
        "template": True,
        "note": "peak and memory bandwidth are 1.25 times the best rates measured",
    }


def samples_of(rows: Sequence[Raw], nodes: bool) -> list[Sample]:
    """Return the timed collectives inside a node, or between nodes."""
    return [
        Sample(
            row["variant"],
            row["shape"]["ranks"],
            row["shape"]["nodes"],
            row["shape"]["bytes"],
            row["seconds"],
        )
        for row in of_bench(rows, "collectives")
        if (row["shape"]["nodes"] > 1) == nodes
    ]


def share_note(share: float, what: str, link: Link) -> tuple[Part | None, list[str]]:
    """Return a share of a link's rate as a number, or a note that says why it is none."""
    sample = link.sample
    said = f"{sample.operation} of {sample.nbytes:.3g} bytes on {sample.ranks} ranks"
    if share > 1:
        return None, [
            f"{what}: {said} reaches {share:.0%} of the line rate, so it used more than the link (a tree of "
            "two nodes, or sums in the switch); measure an all-gather, or set NCCL_ALGO=RING"
        ]
    if share < LEAST_SHARE:
        return None, [f"{what}: {said} reaches {share:.2%} of the line rate, which is no use as a share"]
    return quantity(f"{share:.4g}"), []


def node_part(cluster: HardwareProfile, inside: Link | None) -> tuple[Any, list[str]]:
    """Return the node of a cluster with the share of its fast links that was measured."""
    node = cluster.pool.node
    if inside is None:
        return node.name, []
    rate = float(node.scaleup.bandwidth)
    share, found = share_note(inside.bus_rate / rate, f"links {node.scaleup.link}", inside)
    changes: Part = {"efficiency": share} if share else {}
    if inside.latency is not None:
        changes["latency"] = quantity(f"{inside.latency * 1e6:.4g} us")
        changes |= {} if node.scaleup.ramp is None else {"ramp": quantity("0 us")}
    return {"base": node.name, "scaleup": {"base": node.scaleup.name, **changes}}, found


def network_part(cluster: HardwareProfile, between: Link | None) -> tuple[Any, list[str]]:
    """Return the network of a cluster with the share of its line rate that was measured.

    A ring over whole nodes crosses the network on all ports of a node at once, over one rank of each node on
    one rank's ports alone.
    """
    pool = cluster.pool
    if pool.network is None or between is None or not pool.nic_bandwidth:
        return (pool.network.name if pool.network else None), []
    rails = between.sample.ranks / between.sample.nodes
    share, found = share_note(between.bus_rate / (rails * pool.nic_bandwidth), pool.network.kind, between)
    changes: Part = {"efficiency": share} if share else {}
    if between.latency is not None:
        changes["latency"] = quantity(f"{between.latency * 1e6:.4g} us")
    return {"base": pool.network.name, **changes}, found


def cluster_file(
    name: str, accelerator: Part, cluster: HardwareProfile, rows: Sequence[Raw], source: str
) -> tuple[Part, list[str]]:
    """Return a profile of the usual cluster of an accelerator with what was measured, and notes.

    ``cluster``: whose node and network the machine has; ``rows``: timed rows of the raw table; ``source``:
    where measured numbers are from.
    """
    node, node_notes = node_part(cluster, link_of(samples_of(rows, nodes=False)))
    network, network_notes = network_part(cluster, link_of(samples_of(rows, nodes=True)))
    pool: Part = {"accelerator": accelerator, "node": node}
    pool |= {"network": network} if network else {}
    return {"name": name, "sources": {"here": source}, "pools": [pool]}, [*node_notes, *network_notes]


def bare_file(name: str, accelerator: Part, rows: Sequence[Raw], source: str) -> Part:
    """Return a profile of a machine of no known kind: its ranks joined by what collectives reached."""
    inside = link_of(samples_of(rows, nodes=False))
    own = of_bench(rows, "elementwise") or of_bench(rows, "gemm")
    rate = rate_text(inside.bus_rate if inside else best_rate(own, "bytes"))
    latency = inside.latency if inside and inside.latency is not None else 1e-5
    members = inside.sample.ranks if inside else 1
    links = {
        "name": f"{name}-links",
        "link": "memory",
        "topology": "host",
        "domain": members,
        "bandwidth": quantity(rate, "measured" if inside else "estimated"),
        "pair_bandwidth": quantity(rate, "measured" if inside else "estimated"),
        "efficiency": "1",
        "latency": quantity(f"{latency * 1e6:.4g} us", "measured" if inside else "estimated"),
    }
    node = {"name": f"{name}-node", "accelerators": members, "scaleup": links}
    pools = [{"accelerator": accelerator, "node": node}]
    return {"name": name, "sources": {"here": source}, "pools": pools}


def with_overlap(content: Mapping[str, Any], rows: Sequence[Raw]) -> dict[str, Any]:
    """Return a curve file with the slow-down of compute beside a collective, where it was measured."""
    found = of_bench(rows, "overlap")
    if not found:
        return dict(content)
    ratio = found[-1]["seconds"] / found[-1]["alone_seconds"]
    entry = {"compute_slowdown": f"{ratio:.4g}", "ranks": found[-1]["shape"]["ranks"], "standing": "measured"}
    return {**content, "overlap": entry}
