"""What people write in place of an option's own words: nodes, a count before an accelerator, K and M."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from planner.cli.options import JobOptions
from planner.cli.printable import to_stderr
from planner.cli.reading import BINARY, Reading, Span
from planner.errors import InputError
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import default_cluster, load_hardware
from planner.inputs.spoken_cluster import spoken_cluster

LENGTHS: Final = ("seq_len", "document_tokens", "global_batch", "global_batch_tokens")
"""Options whose K is 1,024 and M 1,048,576."""

Loader = Callable[[str, str], HardwareProfile]

_SCALED = re.compile(r"[\d.,_]+\s*[kKmM]")


def meant(options: JobOptions, reading: Reading, load: Loader = load_hardware) -> JobOptions:
    """Return the options with clusters by their own names, and nodes and counts as ``gpus``.

    What contradicts is noted. Beside ``--nodes`` a count before an accelerator may be that of a node. Options
    that were returned once come back as they are.
    """
    texts: list[str] = []
    counts: list[tuple[str, tuple[Span, ...]]] = []
    for text in options.hardware or ():
        name, count = _cluster(text)
        texts.append(name)
        counts += [] if count is None else [(f"--hardware {text}", ((count, count),))]
    options = options.but(hardware=texts or options.hardware)
    nodes, size = _nodes(options, reading, load)
    if nodes:
        counts = [one for one in counts if one[1] != ((size, size),)]
        counts.append((f"--nodes {options.nodes}", nodes))
    given = Reading().counts("--gpus", options.gpus)
    said = [*counts, *([(f"--gpus {options.gpus}", given)] if counts and given is not None else [])]
    for place, spans in said[1:]:
        if spans != said[0][1]:
            reading.fault(said[0][0], _told(said[0][1]), f"as many accelerators as {place}: {_told(spans)}")
    gpus = options.gpus if options.gpus is not None or not counts else _text(counts[0][1])
    return options.but(gpus=gpus, nodes=None)


def _cluster(text: str) -> tuple[str, int | None]:
    """Return the name of the cluster that a text means, and the count that it says; else the text."""
    spoken = spoken_cluster(text)
    if spoken is None:
        return text, None
    try:
        return default_cluster(spoken.accelerator), spoken.gpus
    except InputError:
        return text, None


def _nodes(options: JobOptions, reading: Reading, load: Loader) -> tuple[tuple[Span, ...], int]:
    """Return the accelerators of so many nodes, and those of one; none where no nodes are said."""
    spans = reading.counts("--nodes", options.nodes)
    if spans is None:
        return (), 0
    sizes = set()
    for text in options.hardware or ():
        profile = reading.attempt(load, text, "cluster")
        own = Reading().count("--gpus-per-node", options.gpus_per_node)
        sizes |= {own or profile.pool.gpus_per_node} if profile is not None else set()
    if len(sizes) > 1:
        told = " and ".join(map(str, sorted(sizes)))
        reading.fault("--nodes", f"nodes of {told}", "clusters with nodes of one size, or --gpus")
    size = max(sizes, default=0)
    return tuple((low * size, high * size) for low, high in spans if size), size


def _text(spans: tuple[Span, ...]) -> str:
    return ",".join(str(low) if low == high else f"{low}..{high}" for low, high in spans)


def _told(spans: tuple[Span, ...]) -> str:
    return f"{_text(spans)} accelerator{'' if spans == ((1, 1),) else 's'}"


def taken_notes(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a command's options were taken for, where they are not written in their own words."""
    from planner.inputs import spoken_cluster as clusters
    from planner.inputs import spoken_model as models

    for kind, note_of in (("model", models.note_of), ("hardware", clusters.note_of)):
        texts = values.get(kind)
        found = [texts] if isinstance(texts, str) else texts if isinstance(texts, list | tuple) else []
        yield from filter(None, (note_of(text) for text in dict.fromkeys(found) if isinstance(text, str)))
    for name in (*LENGTHS, "tokens"):
        text = values.get(name)
        if isinstance(text, str) and _SCALED.fullmatch(text.strip()):
            yield from _number(name, text.strip())


def _number(name: str, text: str) -> Iterator[str]:
    option, letter = f"--{name.replace('_', '-')}", text[-1].upper()
    value = Reading().amount(option, text, binary=name in LENGTHS)
    if value is not None:
        scale = BINARY[letter.lower()] if name in LENGTHS else 1000 if letter == "K" else 10**6
        yield f"{option} {text} is {value:,.0f} ({letter} is {scale:,})"


def tell_taken(context: Any) -> None:
    """Say on standard error what a command's options were taken for; a configured count yields to nodes."""
    values = context.params
    source = context.get_parameter_source("gpus")
    if values.get("nodes") is not None and source is not None and source.name == "DEFAULT_MAP":
        values["gpus"] = None
    if not values.get("quiet"):
        for note in taken_notes(values):
            to_stderr(f"note: {note}")
