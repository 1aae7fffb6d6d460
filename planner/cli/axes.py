"""The axes of a plan: those that the user has set, and the whole plan where nothing is searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from planner.cli.options import PlanOptions
from planner.cli.reading import Reading
from planner.inputs.hardware import HardwareProfile
from planner.plan import Plan, prediction_stage
from planner.rules import divisors
from planner.runtimes._family import Job, Runtime
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context._family import read_method
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload._family import read_offload
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute._family import read_choice
from planner.techniques.schedules import SCHEDULES, plain_schedule
from planner.units import is_whole

DEGREES: Final = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero_shards", "micro_batch")
WORLD: Final = ("tp", "pp", "cp", "dp")
"""Degrees whose product is the number of accelerators."""


MOST_TOLD: Final = 6
"""Counts of accelerators that a message lists."""


def option(name: str) -> str:
    """Return the option of a plan's axis.

    Examples
    --------
    >>> option("micro_batch")
    '--micro-batch'
    """
    return f"--{name.replace('_', '-')}"


def read_axes(options: PlanOptions, reading: Reading) -> dict[str, Any]:
    """Return the axes that the user has set, by the names of `Plan`; faults are noted."""
    axes: dict[str, Any] = {
        name: reading.count(option(name), getattr(options, name), most=10**7) for name in DEGREES
    }
    axes["zero"] = reading.count("--zero", options.zero, least=0, most=3)
    axes["recompute"] = _recompute(options.recompute, reading)
    axes["sequence_parallel"] = options.sequence_parallel
    axes["offload"] = _offload(options.offload, reading)
    method, schedule = options.cp_method, reading.named(option("schedule"), options.schedule, SCHEDULES)
    context = None if method is None else reading.attempt(read_method, CONTEXT_METHODS, method)
    axes |= {"cp_method": context and context.name, "schedule": schedule and schedule.name}
    axes |= _stage_layers(options.stage_layers, reading)
    return {name: value for name, value in axes.items() if value is not None}


def _stage_layers(text: str | None, reading: Reading) -> dict[str, Any]:
    """Return the layers of each stage, and whether prediction layers (m) stand before a loss alone."""
    words = [word.strip() for word in (text or "").split(",")]
    marked = [place for place, word in enumerate(words) if word[-1:] in ("m", "M") and is_whole(word[:-1])]
    if not marked:
        return {"stage_layers": reading.whole_list("--stage-layers", text)}
    split = reading.whole_list("--stage-layers", ",".join(word.rstrip("mM") for word in words))
    if split is None:
        return {}
    if len(marked) > 1 or marked[0] not in (
        prediction_stage(split, True),
        prediction_stage(split, True, True),
    ):
        expected = "prediction layers (m) in the last stage, or in the one before where the last has 0 layers"
        reading.fault("--stage-layers", repr(text), expected)
        return {}
    return {"stage_layers": split, "prediction_apart": marked[0] != prediction_stage(split, True) or None}


def _recompute(text: str | None, reading: Reading) -> str | None:
    """Return a choice of recompute with its name as the contract spells it."""
    if text is None or reading.attempt(read_choice, dict(RECOMPUTES), text.strip()) is None:
        return None
    word, colon, argument = text.strip().partition(":")
    entry = next(entry for entry in RECOMPUTES.values() if word in (entry.name, *entry.aliases))
    return f"{entry.name}{colon}{argument}"


def _offload(text: str | None, reading: Reading) -> str | None:
    """Return what lives on the host as the contract spells it; a search picks a number that is left out."""
    word, colon, _ = (text or "").strip().partition(":")
    entry = reading.named("--offload", None if text is None else word, OFFLOADS)
    if entry is None or (entry.counted and not colon):
        return entry.name if entry else None
    chosen = reading.attempt(read_offload, OFFLOADS, (text or "").strip())
    return chosen.spelled if chosen else None


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
    place = " ".join(option(name) for name in given)
    told = f"{counts[0]}..{counts[-1]}" if len(counts) > MOST_TOLD else ", ".join(map(str, counts))
    rule = f"{told} accelerators" if whole else f"a divisor of {told} accelerators"
    total = f" = {product}" if len(given) > 1 else ""
    reading.fault(place, f"{found}{total}", rule, _nearest_degree(given, product, counts))


def _nearest_degree(given: Mapping[str, int], product: int, counts: tuple[int, ...]) -> str:
    """Return the single change of a degree, the smallest there is, after which they multiply to a count."""
    whole = len(given) == len(WORLD)
    changes = []
    for name, degree in given.items():
        rest = product // degree
        for count in counts:
            if count % rest == 0:
                fitting = [count // rest] if whole else divisors(count // rest)
                best = min(fitting, key=lambda value: abs(value - degree))
                changes.append((abs(best - degree) / degree, f"{option(name)} {best}"))
    return min(changes)[1] if changes else f"--gpus {product}"


def check_offload(axes: Mapping[str, Any], clusters: Iterable[HardwareProfile], reading: Reading) -> None:
    """Note an offload to hosts whose links nobody has published."""
    for profile in clusters:
        if axes.get("offload", "none") != "none" and not profile.pool.accelerator.host_link:
            found = f"{axes['offload']!r} on {profile.name}"
            reading.fault("--offload", found, "none, since its link to the host is not known", "none")


def count_of(axes: Mapping[str, Any], counts: tuple[int, ...] | None, reading: Reading) -> int | None:
    """Return the accelerators of a single plan: as said, or the product of its degrees where dp is given."""
    if counts is None and "dp" in axes:
        product = 1
        for name in WORLD:
            product *= axes.get(name, 1)
        return product
    if counts is None:
        reading.fault("--gpus", "nothing", "the number of accelerators, such as --gpus 64")
        return None
    if len(counts) > 1:
        found = ", ".join(map(str, counts))
        reading.fault("--gpus", found, "one number, since nothing is searched", str(counts[0]))
        return None
    faulty = {problem.where for problem in reading.problems} & {option(name) for name in WORLD}
    filled = ({} if faulty else {"tp": 1, "pp": 1, "cp": 1}) | dict(axes)
    check_world(filled, counts, reading)
    return counts[0]


def one_count(text: str | None) -> tuple[int, ...] | None:
    """Return the number of accelerators that the user has written, whatever else is wrong; no range."""
    spans = Reading().counts("--gpus", text)
    return spans[0][:1] if spans is not None and len(spans) == 1 and len(set(spans[0])) == 1 else None


def whole_plan(axes: Mapping[str, Any], job: Job, runtime: Runtime) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of ``axes``, and the values taken for what was not given.

    What is not given is 1 or none, dp follows from the accelerators, zero is the runtime's default (0 for
    QLoRA), chunks ask for an interleaved schedule. Where the batch does not divide, full micro-batches count.
    """
    values: dict[str, Any] = {name: 1 for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch")}
    values |= {name: axes[name] for name in axes if name != "stage_layers"}
    dp = axes.get("dp", max(1, job.gpus // (values["tp"] * values["pp"] * values["cp"])))
    plain = {
        "dp": dp,
        "zero": _zero(job, runtime),
        "recompute": "none",
        "sequence_parallel": False,
        "cp_method": (*runtime.cp_methods, "ring")[0],
        "schedule": _schedule(values["vpp"], runtime),
        "offload": "none",
    }
    values = plain | values
    values.setdefault("zero_shards", dp * values["cp"] if values["zero"] else 1)
    passes = job.workload.global_batch // (values["micro_batch"] * dp)
    plan = Plan(stage_layers=axes.get("stage_layers"), num_microbatches=float(passes))
    degrees = {name: float(values[name]) for name in DEGREES}
    told = {name: value for name, value in values.items() if name not in axes}
    return replace(plan, **(values | degrees)), told


def _zero(job: Job, runtime: Runtime) -> int:
    """Return what a runtime shards where nobody says: nothing of a quantised base on one accelerator."""
    return 0 if job.workload.method == "qlora" and job.gpus == 1 else runtime.default_zero


def _schedule(vpp: int, runtime: Runtime) -> str:
    """Return the schedule that a runtime takes for so many chunks on a rank."""
    wanted = plain_schedule(vpp)
    return wanted if wanted in runtime.schedules or not runtime.schedules else runtime.schedules[0]
