"""On how many accelerators a launch file starts that leaves it to its launcher."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import TYPE_CHECKING, Final

from planner.cli.options import JobOptions
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.errors import InputError
from planner.units import is_whole

with deferred():
    from planner.inputs import load_hardware

if TYPE_CHECKING:
    from planner.runtimes.imports.sheet import Imported

SAID: Final = ("gpus", "dp", "nodes")
"""Options that say how many accelerators there are."""

MOST: Final = 1 << 20


def started(found: Imported, job: JobOptions, values: Mapping[str, str]) -> tuple[Imported, JobOptions]:
    """Return file and options with the accelerators of whole nodes, where nothing says how many start it.

    A launcher that is told nothing starts every accelerator of its node (``accelerate launch``,
    ``deepspeed``, ``llamafactory-cli train``); a layout of more ranks takes the fewest nodes that it fills.
    """
    if any(name in values for name in SAID) or job.gpus or len(job.hardware or ()) != 1:
        return found, job
    wrong = [problem.found for option, problem in found.faults if option == "gpus"]
    if any(text != "nothing" and "$" not in text for text in wrong):
        return found, job
    name = (job.hardware or [""])[0]
    try:
        node = load_hardware.load_hardware(name, "cluster").pool.gpus_per_node
    except InputError:
        return found, job
    said = _whole(job.gpus_per_node or values.get("ranks"))
    own = said if said is not None and node % said == 0 else node
    count = accelerators(own, values)
    if count is None:
        return found, job
    note = f"how many accelerators start it is not said: priced on {count} of {name}; --gpus N"
    more = {"gpus_per_node": str(own)} if own < node and count > own else {}
    return replace(found, notes=(*found.notes, note)), job.but(gpus=str(count), **more)


def accelerators(node: int, values: Mapping[str, str]) -> int | None:
    """Return the accelerators of the fewest nodes that a layout fills, or as many as its batch allows.

    Examples
    --------
    >>> accelerators(8, {}), accelerators(8, {"tp": "8", "pp": "4"}), accelerators(8, {"tp": "3"})
    (8, 32, 24)
    >>> accelerators(8, {"micro_batch": "2", "global_batch": "8"})
    4
    """
    sizes = {name: _whole(values.get(name)) for name in ("tp", "pp", "cp", "ep", "etp", "zero_shards")}
    split = (sizes["tp"] or 1) * (sizes["pp"] or 1) * (sizes["cp"] or 1)
    inner = (sizes["ep"] or 1) * (sizes["etp"] or 1) * (sizes["pp"] or 1)
    shards = (sizes["tp"] or 1) * (sizes["pp"] or 1) * (sizes["zero_shards"] or 1)
    least = lcm(split, inner if (sizes["ep"] or 1) > 1 else 1, shards)
    whole = lcm(least, node)
    if node < 1 or whole > MOST:
        return None
    micro, batch = _whole(values.get("micro_batch")), _whole(values.get("global_batch"))
    if not micro or not batch:
        return whole
    fitting = (count for count in range(whole, 0, -least) if batch % (micro * (count // split)) == 0)
    return next(fitting, whole)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and is_whole(text) and 0 < int(text) < MOST else None
