"""The best plan at other accelerator counts, batches and sequences, searched beforehand for sliders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import inf, log2, prod
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import replace
from planner.report.front import Patience, Tell
from planner.report.html import HtmlBlock
from planner.report.layout import layout
from planner.report.plan_columns import LIMITED, MFU, PEAK, PER_STEP, STEP, TOKENS, plan_record
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest

FACTORS: Final = {"gpus": (0.5, 1, 2, 4), "global_batch": (0.5, 1, 2), "seq_len": (0.5, 1, 2)}
"""What each slider multiplies the job's own value with."""

LABELS: Final = {"gpus": "accelerators", "global_batch": "sequences a step", "seq_len": "tokens a sequence"}

Point = tuple[int, int, int]
"""Accelerators, sequences of a step and tokens of a sequence."""


def values_of(request: SearchRequest) -> dict[str, list[int]]:
    """Return the stops of each slider: whole, and within what the cluster and the model have."""
    work, model = request.workload, request.model
    own = {"gpus": request.gpu_counts[0], "global_batch": work.global_batch, "seq_len": work.seq_len}
    most = {"gpus": request.clusters[0].pool.max_gpus}
    if model.learned_positions and model.max_positions:
        most["seq_len"] = float(model.max_positions)
    stops = {name: [value * factor for factor in FACTORS[name]] for name, value in own.items()}
    return {
        name: [int(stop) for stop in each if stop == int(stop) and stop <= most.get(name, inf)]
        for name, each in stops.items()
    }


def nearest_first(request: SearchRequest) -> list[Point]:
    """Return all points of the sliders, those near the job's own first."""
    work = request.workload
    own = (request.gpu_counts[0], work.global_batch, work.seq_len)

    def far(point: Point) -> float:
        return sum(abs(log2(value / mine)) for value, mine in zip(point, own, strict=True))

    points: list[Point] = [(a, b, c) for a, b, c in product(*values_of(request).values())]
    return sorted(points, key=far)


def searched_grid(
    request: SearchRequest, tell: Tell, patience: Patience
) -> Iterator[tuple[Point, Estimate | None]]:
    """Yield the fastest plan at each point that there is time for; None where nothing fits."""
    points = nearest_first(request)
    for number, (gpus, batch, length) in enumerate(points):
        what = f"the fastest plan on {gpus:,} accelerators, {batch:,} sequences of {length:,} tokens"
        if not patience.allows(what):
            continue
        tell(number / len(points), what)
        work = request.workload.model_copy(update={"global_batch": batch, "seq_len": length})
        asked = replace(request, gpu_counts=(gpus,), workload=work, objective="time", top=1)
        yield (gpus, batch, length), next(iter(search_counts(asked, advise=False, beside=False).plans), None)


def sliders(request: SearchRequest, found: Mapping[Point, Estimate | None]) -> HtmlBlock:
    """Return the sliders of a page with the plans that they show."""
    values = values_of(request)
    work = request.workload
    own = (request.gpu_counts[0], work.global_batch, work.seq_len)
    controls = {
        "axes": [
            {"label": LABELS[name], "values": stops, "at": stops.index(mine)}
            for (name, stops), mine in zip(values.items(), own, strict=True)
        ],
        "plans": {",".join(map(str, point)): _shown(best) for point, best in found.items()},
    }
    stops = prod(map(len, values.values()))
    short = f" of {stops}, as many as --time-limit allowed" if len(found) < stops else ""
    note = f"Precomputed: the fastest plan that fits, for {len(found)} combinations{short}."
    return HtmlBlock("sliders", "What if", note, controls=controls, id="sliders")


def _shown(best: Estimate | None) -> list[tuple[str, str]]:
    """Return what is shown of a plan, name and value."""
    if best is None:
        return [("", "no plan fits")]
    row = plan_record(best)
    rows = [one.item(row) for one in (STEP, TOKENS, MFU, PEAK, PER_STEP, LIMITED)]
    return [("best layout", layout(best.plan)), *rows]
