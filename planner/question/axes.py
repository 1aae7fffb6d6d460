"""The axes of a plan: those that the user has set, and the whole plan where nothing is searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.fields import ASKED_AXES, default
from planner.plan import DEGREES, Plan
from planner.question.reading import Reading
from planner.question.values import marks_apart, read_values
from planner.rules import divisors
from planner.runtimes.family import Job, Runtime
from planner.techniques.schedules import plain_schedule

WORLD: Final = ("tp", "pp", "cp", "dp")
"""Degrees whose product is the number of accelerators."""

TAKEN: Final = ("dp", "zero", "recompute", "sequence_parallel", "cp_method", "schedule", "offload",
                "tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch", "zero_shards")  # fmt: skip
"""Axes that have a value where nobody gives one, in the order in which answers list them."""

MOST_TOLD: Final = 6
"""Counts of accelerators that a message lists."""


def read_axes(given: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the axes that the user has set, by the names of `Plan`; faults are noted."""
    axes = read_values([axis.name for axis in ASKED_AXES], given, reading)
    split = axes["stage_layers"]
    axes["prediction_apart"] = marks_apart(given["stage_layers"], split) or None if split else None
    return {name: value for name, value in axes.items() if value is not None}


def check_world(axes: Mapping[str, Any], counts: tuple[int, ...], reading: Reading) -> None:
    """Note fixed degrees that multiply to none of the counts of accelerators."""
    given = {name: axes[name] for name in WORLD if name in axes}
    product = 1
    for degree in given.values():
        product *= degree
    whole = len(given) == len(WORLD)
    if any(count == product if whole else count % product == 0 for count in counts):
        return
    found = " · ".join(f"{name} {degree}" for name, degree in given.items())
    place = " ".join(map(reading.place, given))
    told = f"{counts[0]}..{counts[-1]}" if len(counts) > MOST_TOLD else ", ".join(map(str, counts))
    rule = f"{told} accelerators" if whole else f"a divisor of {told} accelerators"
    total = f" = {product}" if len(given) > 1 else ""
    reading.fault(place, f"{found}{total}", rule, _nearest_degree(given, product, counts, reading))


def _nearest_degree(given: Mapping[str, int], product: int, counts: tuple[int, ...], reading: Reading) -> str:
    """Return the single change of a degree, the smallest there is, after which they multiply to a count."""
    whole = len(given) == len(WORLD)
    changes = []
    for name, degree in given.items():
        rest = product // degree
        for count in counts:
            if count % rest == 0:
                fitting = [count // rest] if whole else divisors(count // rest)
                best = min(fitting, key=lambda value: abs(value - degree))
                changes.append((abs(best - degree) / degree, reading.door.said(name, best)))
    more = reading.door.said("gpus", product)
    near = min(changes)[1] if changes else more
    return f"{near} or {more}" if changes and product > max(counts) else near


def count_of(axes: Mapping[str, Any], counts: tuple[int, ...] | None, reading: Reading) -> int | None:
    """Return the accelerators of a single plan: as said, or the product of its degrees where dp is given."""
    if counts is None and "dp" in axes:
        product = 1
        for name in WORLD:
            product *= axes.get(name, 1)
        return product
    if counts is None:
        reading.fault(
            "gpus", "nothing", "the number of accelerators, such as " + reading.door.said("gpus", 64)
        )
        return None
    if len(counts) > 1:
        found = ", ".join(map(str, counts))
        reading.fault("gpus", found, "one number, since nothing is searched", str(counts[0]))
        return None
    faulty = {problem.where for problem in reading.problems} & {reading.place(name) for name in WORLD}
    filled = ({} if faulty else {"tp": 1, "pp": 1, "cp": 1}) | dict(axes)
    check_world(filled, counts, reading)
    return counts[0]


def one_count(text: str | None) -> tuple[int, ...] | None:
    """Return the number of accelerators that the user has written, whatever else is wrong; no range."""
    spans = Reading().counts("gpus", text)
    return spans[0][:1] if spans is not None and len(spans) == 1 and len(set(spans[0])) == 1 else None


def whole_plan(axes: Mapping[str, Any], job: Job, runtime: Runtime) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of ``axes``, and the values taken for what was not given.

    What is not given is 1 or none, dp follows from the accelerators, zero is the runtime's default (0 for
    QLoRA), chunks ask for an interleaved schedule. Where the batch does not divide, full micro-batches count.
    """
    values: dict[str, Any] = {name: default(name) for name in TAKEN} | dict(axes)
    split = values.pop("stage_layers", None)
    follows = {
        "dp": max(1, job.gpus // (values["tp"] * values["pp"] * values["cp"])),
        "zero": _zero(job, runtime),
        "cp_method": (*runtime.cp_methods, default("cp_method"))[0],
        "schedule": _schedule(values["vpp"], runtime),
    }
    values |= follows | {name: axes[name] for name in follows if name in axes}
    if "zero_shards" not in axes:
        values["zero_shards"] = values["dp"] * values["cp"] if values["zero"] else 1
    told = {name: values[name] for name in TAKEN if name not in axes}
    passes = job.workload.global_batch // (values["micro_batch"] * values["dp"])
    numbers = {name: float((values | {"num_microbatches": passes})[name]) for name in DEGREES}
    return Plan(**(values | numbers | {"stage_layers": split})), told


def _zero(job: Job, runtime: Runtime) -> int:
    """Return what a runtime shards where nobody says: nothing of a quantised base on one accelerator."""
    return 0 if job.workload.method == "qlora" and job.gpus == 1 else runtime.default_zero


def _schedule(vpp: int, runtime: Runtime) -> str:
    """Return the schedule that a runtime takes for so many chunks on a rank."""
    wanted = plain_schedule(vpp)
    return wanted if wanted in runtime.schedules or not runtime.schedules else runtime.schedules[0]
