"""A hardware profile from texts that a machine has printed, on top of a cluster that ships."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from planner.calibrate.measured.cluster import Part, known_accelerator, share_note
from planner.calibrate.measured.links import Link, Sample, link_of
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.inputs.hardware import HardwareProfile
from planner.inputs.import_logs.ibstat import Adapter
from planner.inputs.import_logs.nccl_tests import NcclTest
from planner.inputs.import_logs.smi import Gpu, Smi
from planner.inputs.import_logs.topology import Topology
from planner.inputs.load_hardware import load_hardware
from planner.units import GIB, MIB, show

NVLINK_RATE: Final = {"volta": 25e9, "ampere": 25e9, "hopper": 25e9, "blackwell": 50e9}
"""One NVLink, one direction, by architecture. [byte/s]

References
----------
.. [1] NVIDIA, "NVLink and NVLink Switch," https://www.nvidia.com/en-us/data-center/nvlink/.
"""

IDLE_BYTES: Final = GIB
"""Memory in use from which a GPU counts as busy. [byte]"""


@dataclass(frozen=True)
class Evidence:
    """What was read, each with the name of its file."""

    smi: tuple[tuple[str, Smi], ...] = ()
    topology: tuple[tuple[str, Topology], ...] = ()
    adapters: tuple[tuple[str, tuple[Adapter, ...]], ...] = ()
    tests: tuple[tuple[str, NcclTest], ...] = ()


@dataclass(frozen=True)
class ImportedLog:
    """A profile and what a reader must know of it."""

    content: Part
    notes: tuple[str, ...]


def gather(logs: Sequence[tuple[str, Any]]) -> Evidence:
    """Sort what was read by its kind."""
    tests = [(name, test) for name, log in logs if _is_tests(log) for test in log]
    return Evidence(
        smi=tuple((name, log) for name, log in logs if isinstance(log, Smi)),
        topology=tuple((name, log) for name, log in logs if isinstance(log, Topology)),
        adapters=tuple(
            (name, log) for name, log in logs if isinstance(log, tuple) and isinstance(log[0], Adapter)
        ),
        tests=tuple(tests),
    )


def _is_tests(log: Any) -> bool:
    return isinstance(log, tuple) and isinstance(log[0], NcclTest)


def product_of(evidence: Evidence) -> str:
    """Return the product name of the GPUs, empty where nothing tells it."""
    names = [smi.gpus[0].product for _, smi in evidence.smi] + [test.device for _, test in evidence.tests]
    return names[0] if names else ""


def base_cluster(evidence: Evidence, base: str) -> HardwareProfile:
    """Return the cluster that the texts change: the named one, or the usual one of their GPUs.

    Raises `InputError` if none is named and the texts do not tell the GPU, or tell one that does not ship.
    """
    if base:
        return load_hardware(base, "--base")
    product = product_of(evidence)
    known = known_accelerator(product) if product else None
    if known is None or not known.cluster:
        found = f"{product!r}, which no profile describes" if product else "no text that names the GPU"
        raise InputError(Problem("--base", found, "the cluster to start from, such as dgx-h100"))
    return load_hardware(known.cluster, "--base")


def quantity(value: str, source: str, standing: str = "measured") -> Part:
    """Return a number of the profile."""
    return {"value": value, "source": source, "standing": standing}


def imported(evidence: Evidence, base: str, name: str, in_place: bool) -> ImportedLog:
    """Return a profile that the texts speak for.

    ``base``: cluster to start from; empty for the usual one of the GPUs; ``in_place``: which times of
    nccl-tests count.
    """
    cluster = base_cluster(evidence, base)
    notes: list[str] = []
    accelerator = _accelerator(evidence, cluster, notes)
    node = _node(evidence, cluster, notes)
    samples = samples_of(evidence, in_place)
    domain = _domain(node, cluster)
    inside = link_of([sample for sample in samples if _is_inside(sample, domain)])
    between = link_of([sample for sample in samples if not _is_inside(sample, domain)])
    _scaleup(node, cluster, inside, notes)
    pool: Part = {"accelerator": accelerator, "node": node if len(node) > 1 else node["base"]}
    network = _network(node, cluster, between, notes)
    pool |= {"network": network} if network else {}
    sources = {name: f"{name}, {_what(log)}" for name, log in _all(evidence)}
    return ImportedLog({"name": name, "sources": sources, "pools": [pool]}, tuple(notes))


def _all(evidence: Evidence) -> list[tuple[str, Any]]:
    return [*evidence.smi, *evidence.topology, *evidence.adapters, *evidence.tests]


def _what(log: Any) -> str:
    if isinstance(log, Smi):
        return f"nvidia-smi -q, driver {log.driver or 'unknown'}, CUDA {log.cuda or 'unknown'}"
    if isinstance(log, Topology):
        return "nvidia-smi topo -m"
    return "nccl-tests" if isinstance(log, NcclTest) else "ibstat"


def samples_of(evidence: Evidence, in_place: bool) -> list[Sample]:
    """Return the timed collectives of all tests; a host that is not told counts as one."""
    return [
        Sample(
            test.operation,
            test.ranks,
            max(test.hosts, 1),
            row.nbytes,
            row.in_place if in_place else row.out_of_place,
        )
        for _, test in evidence.tests
        for row in test.rows
    ]


def _is_inside(sample: Sample, domain: int) -> bool:
    return sample.ranks <= domain


def _domain(node: Part, cluster: HardwareProfile) -> int:
    changed = node.get("scaleup", {}).get("domain")
    return int(changed or cluster.pool.scaleup_domain)


def _accelerator(evidence: Evidence, cluster: HardwareProfile, notes: list[str]) -> Any:
    base = cluster.pool.accelerator
    if not evidence.smi:
        return base.name
    source, smi = evidence.smi[0]
    _tell_health(smi, notes)
    gpu = smi.gpus[0]
    known = known_accelerator(gpu.product)
    if known is not None and known.name != base.name:
        found = f"{gpu.product!r} ({known.name})"
        raise InputError(Problem(source, found, f"a GPU of {cluster.name}: {base.name}", known.cluster))
    part: Part = {"base": base.name, "memory_visible": quantity(f"{gpu.memory / MIB:.0f} MiB", source)}
    if gpu.reserved:
        part["memory_driver"] = quantity(f"{gpu.reserved / MIB:.0f} MiB", source)
    if gpu.power_limit is not None:
        part["power"] = quantity(f"{gpu.power_limit:g} W", source)
    return part


def _tell_health(smi: Smi, notes: list[str]) -> None:
    if smi.attached != len(smi.gpus):
        notes.append(f"the driver has {smi.attached} GPUs attached and tells of {len(smi.gpus)}")
    kinds = Counter((gpu.product, gpu.memory) for gpu in smi.gpus)
    if len(kinds) > 1:
        words = ", ".join(
            f"{count} x {name} with {show(memory, 'byte')}" for (name, memory), count in kinds.items()
        )
        notes.append(f"the GPUs differ: {words}; the first stands for all")
    for number, gpu in enumerate(smi.gpus):
        notes += [f"GPU {number} {fault}" for fault in _faults(gpu)]


def _faults(gpu: Gpu) -> list[str]:
    found = ["is cut into MIG slices"] if gpu.sliced else []
    found += [f"is throttled ({', '.join(gpu.slowdowns)})"] if gpu.slowdowns else []
    return found + ([f"is busy: {show(gpu.used, 'byte')} in use"] if gpu.used > IDLE_BYTES else [])


def _node(evidence: Evidence, cluster: HardwareProfile, notes: list[str]) -> Part:
    node = cluster.pool.node
    part: Part = {"base": node.name}
    if evidence.topology:
        source, matrix = evidence.topology[0]
        if len(matrix.gpus) != node.accelerators:
            part["accelerators"] = len(matrix.gpus)
        part |= _nvlinks(source, matrix, cluster, notes)
    if evidence.adapters:
        part |= _ports(evidence.adapters[0], notes)
    return part


def _nvlinks(source: str, matrix: Topology, cluster: HardwareProfile, notes: list[str]) -> Part:
    """Return the fast links that the matrix shows, where they are not those of the cluster."""
    links = cluster.pool.node.scaleup
    changes: Part = {}
    if cluster.pool.scaleup_domain == cluster.pool.gpus_per_node != len(matrix.gpus):
        changes["domain"] = len(matrix.gpus)
    each = NVLINK_RATE.get(cluster.pool.accelerator.arch)
    if matrix.nvlinks and each and matrix.nvlinks * each != float(links.bandwidth):
        rate = f"{matrix.nvlinks * each / 1e9:g} GB/s"
        changes |= {name: quantity(rate, source, "derived") for name in ("bandwidth", "pair_bandwidth")}
        notes.append(
            f"{matrix.nvlinks} NVLinks are {rate} a direction; {links.name} has {links.bandwidth.text}"
        )
    if not matrix.even:
        words = Counter(matrix.pairs)
        notes.append(
            f"not every two GPUs are joined alike: {', '.join(f'{n} x {word}' for word, n in words.items())}"
        )
    elif len(matrix.gpus) > 1 and not matrix.nvlinks and links.link.startswith("nvlink"):
        notes.append(
            f"the GPUs are joined by {matrix.pairs[0]}, not by {links.link}: name another cluster with --base"
        )
    far = [gpu for gpu, nics in matrix.near_nics.items() if not nics] if matrix.nics else []
    if far:
        notes.append(f"no port is near to {', '.join(far)}: traffic crosses the processor")
    return {"scaleup": {"base": links.name, **changes}} if changes else {}


def _ports(evidence: tuple[str, tuple[Adapter, ...]], notes: list[str]) -> Part:
    """Return the ports of the fastest kind that are up: slower ones are for storage and management."""
    source, adapters = evidence
    fastest = max((port.rate for port in adapters), default=0.0)
    wanted = [port for port in adapters if port.rate == fastest]
    live = [port for port in wanted if port.active]
    down = [port.name for port in adapters if not port.active]
    if down:
        notes.append(f"ports that are down: {', '.join(down)}")
    others = [
        f"{port.name} ({show(port.rate, 'byte/s')})"
        for port in adapters
        if port.active and port not in wanted
    ]
    if others:
        notes.append(f"slower ports, not counted: {', '.join(others)}")
    if not live:
        return {}
    return {"nics": len(live), "nic_rate": quantity(f"{fastest * 8 / 1e9:g} Gbit/s", source)}


def _scaleup(node: Part, cluster: HardwareProfile, inside: Link | None, notes: list[str]) -> None:
    """Put the measured share of the fast links, and their latency, into a node."""
    if inside is None:
        return
    links = cluster.pool.node.scaleup
    part = node.setdefault("scaleup", {"base": links.name})
    changed = part.get("bandwidth")
    rate = float(changed["value"].removesuffix(" GB/s")) * 1e9 if changed else float(links.bandwidth)
    part |= _measured(inside, inside.bus_rate / rate, f"links {links.link}", notes)
    if "latency" in part and links.ramp is not None:
        part["ramp"] = quantity("0 us", "nccl-tests")


def _measured(link: Link, share: float, what: str, notes: list[str]) -> Part:
    part, found = share_note(share, what, link)
    notes += found
    if part and link.sample.operation == "all_reduce":
        notes.append(
            f"{what}: an all-reduce may be summed inside a switch; an all-gather shows the link itself"
        )
    source = "nccl-tests"
    changes: Part = {"efficiency": part | {"source": source}} if part else {}
    if link.latency is not None and part:
        changes["latency"] = quantity(f"{link.latency * 1e6:.4g} us", source)
    return changes


def _network(node: Part, cluster: HardwareProfile, between: Link | None, notes: list[str]) -> Any:
    """Return the network with the share of its line rate that tests over several nodes reached."""
    pool = cluster.pool
    if pool.network is None:
        return None
    if between is None:
        return pool.network.name
    accelerators = int(node.get("accelerators", pool.gpus_per_node))
    ports = node.get("nics", pool.node.nics or 0)
    stated = node.get("nic_rate")
    rate = (
        float(stated["value"].removesuffix(" Gbit/s")) / 8e-9 if stated else float(pool.node.nic_rate or 0.0)
    )
    rails = min(between.sample.ranks / max(between.sample.nodes, 1), accelerators)
    line = rails * ports * rate / accelerators
    if not line:
        notes.append("no port of the node is known, so tests over several nodes say nothing of their share")
        return pool.network.name
    return {
        "base": pool.network.name,
        **_measured(between, between.bus_rate / line, pool.network.kind, notes),
    }
