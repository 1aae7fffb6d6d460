"""SkyPilot's price catalogue: what clouds ask for their machines, as ``catalogs/v8/CLOUD/vms.csv`` has it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem, nearest
from planner.inputs.bounded import TABLE_BYTES
from planner.inputs.load_hardware import default_cluster, hardware_folder, load_hardware
from planner.inputs.shipped import names_and_aliases
from planner.inputs.spoken_cluster import spoken_accelerator
from planner.inputs.yaml_file import read_text
from planner.units import GIB, MIB

NEEDED: Final = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice")
"""Columns of a catalogue that are read; ``GpuInfo`` tells the memory, where it is there.

References
----------
.. [1] SkyPilot, https://github.com/skypilot-org/skypilot-catalog, ``README.md``, schema v8.
"""

ON_DEMAND, SPOT = "on demand", "spot"

_PREFIX: Final = "standard_"
_MEMORY = re.compile(r"'SizeInMiB': *([\d.]+)")
_MEBIBYTES_FROM = 1000.0
"""Some clouds write GiB where the column says MiB; no device has so little memory. [-]"""

_MOST_FAULTS: Final = 5


@dataclass(frozen=True)
class Offer:
    """A machine of a cloud at one price."""

    instance: str
    """As the cloud calls it."""
    words: tuple[str, ...]
    """What its accelerators are called, with their memory where that is told."""
    gpus: int
    """How many it has. [-]"""
    usd_per_h: float
    """For one of them. [USD/h]"""
    kind: str
    """``on demand`` or ``spot``."""
    region: str
    """Where it is so."""

    @property
    def accelerator(self) -> str:
        """The accelerator that ships under one of its words; empty where none does."""
        return next(filter(None, map(spoken_accelerator, self.words)), "")

    @property
    def cluster(self) -> str:
        """The shipped cluster of such machines: their own, or the usual one of the accelerator."""
        known = names_and_aliases(hardware_folder())
        own = known.get(self.instance.lower().removeprefix(_PREFIX))
        if own is not None and load_hardware(own.stem).pool.accelerator.name == self.accelerator:
            return own.stem
        return default_cluster(self.accelerator) if self.accelerator else ""


@dataclass(frozen=True)
class PriceCatalogue:
    """The cheapest offers of a table, and what of it cannot be used."""

    offers: tuple[Offer, ...]
    """One for each machine and kind of price, the cheapest region, cheapest first."""
    unknown: tuple[str, ...]
    """Accelerators that do not ship."""
    apart: tuple[str, ...]
    """Accelerators that are sold without a machine, whose host would cost more."""


def read_catalogue(path: Path, region: str = "") -> PriceCatalogue:
    """Read a catalogue; only the rows of a region, where one is named.

    Raises `InputError` if it is no catalogue, has a number that is none, or no row of the region.
    """
    reader = csv.DictReader(read_text(path, TABLE_BYTES).splitlines())
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        found = f"no column {', '.join(missing)}"
        raise InputError(Problem(str(path), found, "a catalogue of SkyPilot: catalogs/v8/CLOUD/vms.csv"))
    faults: list[Problem] = []
    rows, regions, apart = [], set(), set()
    for line, row in enumerate(_rows(reader, path), 2):
        name, instance = row["AcceleratorName"] or "", row["InstanceType"] or ""
        regions.add(row["Region"] or "")
        if not name or (region and row["Region"] != region):
            continue
        if not instance:
            apart.add(name)
            continue
        try:
            rows += _offers(row)
        except ValueError:
            faults.append(Problem(f"{path}, line {line}", f"{row['AcceleratorCount']} at {row['Price']}",
                                  "a number of accelerators and prices in USD/h"))  # fmt: skip
    if faults:
        raise InputError(faults[:_MOST_FAULTS])
    if region and region not in regions:
        raise InputError(Problem("--region", repr(region), f"a region of {path}", nearest(region, regions)))
    unknown = {offer.words[-1] for offer in rows if not offer.accelerator}
    known = (offer for offer in rows if offer.accelerator)
    return PriceCatalogue(tuple(_cheapest(known)), tuple(sorted(unknown)), tuple(sorted(apart)))


def _rows(reader: csv.DictReader[str], path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table; a field that csv cannot read is a fault of the file."""
    try:
        yield from reader
    except csv.Error as fault:
        raise InputError(Problem(str(path), str(fault), "a table of comma-separated values")) from fault


def _offers(row: dict[str, str]) -> list[Offer]:
    """Return the offers of a row: on demand, spot or both."""
    gpus = float(row["AcceleratorCount"] or "nothing")
    if not isfinite(gpus):
        raise ValueError(gpus)
    if gpus < 1 or not gpus.is_integer():
        return []
    told = _MEMORY.search(row.get("GpuInfo") or row.get("GPUInfo") or "")
    size = float(told[1]) if told else 0.0
    memory = size * (MIB if size >= _MEBIBYTES_FROM else GIB) / GIB
    name = row["AcceleratorName"]
    words = (*([f"{name} {memory:.0f}gb"] if memory else []), name)
    prices = {ON_DEMAND: row["Price"], SPOT: row["SpotPrice"]}
    return [
        Offer(row["InstanceType"], words, int(gpus), price / gpus, kind, row["Region"] or "")
        for kind, text in prices.items()
        if text and 0 < (price := float(text)) < inf
    ]


def _cheapest(offers: Iterable[Offer]) -> list[Offer]:
    best: dict[tuple[str, str], Offer] = {}
    for offer in sorted(offers, key=lambda one: (one.usd_per_h, one.instance)):
        best.setdefault((offer.instance, offer.kind), offer)
    return list(best.values())
