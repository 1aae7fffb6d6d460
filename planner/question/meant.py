"""What people write in place of an option's own words: nodes, a count before an accelerator, K and M."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import InputError
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import default_cluster, load_hardware
from planner.inputs.spoken_cluster import spoken_cluster
from planner.question.reading import Reading, Span, written_spans

Loader = Callable[[str, str], HardwareProfile]


def meant(said: Mapping[str, Any], reading: Reading, load: Loader = load_hardware) -> dict[str, Any]:
    """Return the options with clusters by their own names, and nodes and counts as ``gpus``.

    What contradicts is noted. Beside ``--nodes`` a count before an accelerator may be that of a node. Options
    that were returned once come back as they are.
    """
    texts: list[str] = []
    counts: list[tuple[str, tuple[Span, ...]]] = []
    for text in said.get("hardware") or ():
        name, count = _cluster(text)
        texts.append(name)
        counts += [] if count is None else [(reading.door.said("hardware", text), ((count, count),))]
    named = dict(said) | {"hardware": texts or None, "nodes": None}
    nodes, size = _nodes(dict(said) | {"hardware": texts}, reading, load)
    if nodes:
        counts = [one for one in counts if one[1] != ((size, size),)]
        counts.append((reading.door.said("nodes", said["nodes"]), nodes))
    if not counts:
        return named
    own = Reading().counts("gpus", said.get("gpus"))
    everything = [*counts, *([(reading.door.said("gpus", said["gpus"]), own)] if own is not None else [])]
    (first, wanted), *others = everything
    for place, spans in others:
        if spans != wanted:
            reading.fault(first, _told(wanted), f"the {_told(spans)} of {place}, or one of the two alone")
    return named if said.get("gpus") is not None else named | {"gpus": wanted}


def _cluster(text: str) -> tuple[str, int | None]:
    """Return the name of the cluster that a text means, and the count that it says; else the text."""
    spoken = spoken_cluster(text)
    if spoken is None:
        return text, None
    try:
        return default_cluster(spoken.accelerator), spoken.gpus
    except InputError:
        return text, None


def _nodes(said: Mapping[str, Any], reading: Reading, load: Loader) -> tuple[tuple[Span, ...], int]:
    """Return the accelerators of so many nodes, and those of one; none where no nodes are said."""
    spans = reading.counts("nodes", said.get("nodes"))
    if spans is None:
        return (), 0
    sizes = set()
    for text in said.get("hardware") or ():
        profile = reading.attempt(load, text, "cluster")
        own = Reading().count("gpus_per_node", said.get("gpus_per_node"))
        sizes |= {own or profile.pool.gpus_per_node} if profile is not None else set()
    if len(sizes) > 1:
        told = " and ".join(map(str, sorted(sizes)))
        reading.fault(
            "nodes", f"nodes of {told}", f"clusters with nodes of one size, or {reading.place('gpus')}"
        )
    size = max(sizes, default=0)
    return tuple((low * size, high * size) for low, high in spans if size), size


def _told(spans: tuple[Span, ...]) -> str:
    return f"{written_spans(spans)} accelerator{'' if spans == ((1, 1),) else 's'}"
