"""Why a run is slow or dies: the plan priced with each thing that may be wrong, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from planner.cost.estimate import Estimate
from planner.cost.price import price
from planner.dataclasses import dataclass, replace
from planner.inputs.bands import is_as_expected
from planner.inputs.record import Sourced
from planner.plan import Plan
from planner.report.as_json import Document, estimate_document, plain
from planner.report.estimate_page import MEMORY_WORDS, job_line
from planner.report.explain_neighbours import Neighbour, changed, neighbours
from planner.report.layout import layout
from planner.report.limits import limits_said
from planner.report.page import Page, Table, significant
from planner.report.remedies import RISK, remedies, remedy_record, remedy_table
from planner.runtimes.family import Job, Runtime
from planner.units import GIB, percent, rounded

DIAGNOSIS: Final = "planner/diagnosis/1"

WORTH: Final = 0.02
"""Share of a step from which a cause is told. [-]"""

MOST_CAUSES: Final = 4
MOST_FASTER: Final = 3

ABOUT: Final = 0.15
"""How far from the measured step a cause takes about as long. [-]"""

FULL: Final = 0.95
"""Share of the memory in use from which the allocator may have to start over. [-]"""

SLOW_NETWORK, SLOW_LINKS, SLOW_CLOCKS, UNEVEN = 0.5, 0.25, 0.8, 2.0
"""What is tried: shares of the rates of network, links and products, and of the experts' mean load. [-]"""


@dataclass(frozen=True)
class Suspect:
    """Something that may be otherwise than the plan says, and the plan priced so."""

    cause: str
    term: str
    advice: str
    """What it is, the term of the estimate that it changes, and what to try."""
    answer: Estimate
    """The plan with it."""


@dataclass(frozen=True)
class Observed:
    """What is known of a run beside its plan."""

    seconds: float | None = None
    """Time of an optimizer step. [s]"""
    peak: float | None = None
    """Device memory in use at its peak. [byte]"""
    out_of_memory: bool = False
    """Whether it ran out of memory."""
    source: str = ""
    """Where this is from, in words."""


@dataclass(frozen=True)
class Diagnosis:
    """A run beside its estimate: the likeliest causes, and plans that are faster."""

    answer: Estimate
    """The plan as it is said to be."""
    observed: Observed
    """The run."""
    causes: tuple[Suspect, ...]
    """The likeliest first."""
    faster: tuple[Neighbour, ...]
    """Plans one change away that fit and are faster, the fastest first."""

    @property
    def gap(self) -> float | None:
        """How much longer a step took than estimated, as a share of the estimate. [-]"""
        seconds = self.observed.seconds
        return None if seconds is None else seconds / self.answer.step - 1

    def explained(self, one: Suspect) -> float | None:
        """Return the share of the gap that a cause explains; above 1 where a part of it would do. [-]"""
        gap = self.gap
        return None if gap is None or gap <= 0 else (one.answer.step / self.answer.step - 1) / gap


def diagnose(answer: Estimate, observed: Observed) -> Diagnosis:
    """Return the likeliest causes of what was observed, and what else is faster.

    A cause of slowness is the likelier the nearer its price comes to the measured step; a cause of running
    out of memory is told where the plan with it does not fit, that which needs the least first.
    """
    known = [one for one in suspects(answer) if not one.answer.violations]
    if observed.out_of_memory:
        dying = [one for one in known if one.answer.oom_probability > RISK and one.answer.peak > answer.peak]
        causes = [] if answer.peak > answer.capacity else sorted(dying, key=lambda one: one.answer.peak)
    else:
        seconds = observed.seconds or answer.step
        slower = [one for one in known if one.answer.step > answer.step * (1 + WORTH)]
        slow = seconds > answer.step and not _as_expected(answer, seconds)
        causes = sorted(slower, key=lambda one: abs(one.answer.step - seconds)) if slow else []
    return Diagnosis(answer, observed, tuple(causes[:MOST_CAUSES]), faster_plans(answer))


def faster_plans(answer: Estimate) -> tuple[Neighbour, ...]:
    """Return plans one change away that fit safely and are faster, the fastest first."""
    near = neighbours(answer, lambda plan: price(plan, answer.job, answer.runtime, answer.capacity))
    better = [
        (one.answer.step, place, one)
        for place, one in enumerate(near)
        if isinstance(one.answer, Estimate) and one.answer.feasible and one.answer.oom_probability <= RISK
        and one.answer.step < answer.step * (1 - WORTH)
    ]  # fmt: skip
    return tuple(one for _, _, one in sorted(better)[:MOST_FASTER])


def suspects(answer: Estimate) -> Iterator[Suspect]:
    """Yield the plan with each thing that may be otherwise than it says."""
    yield from _links(answer)
    yield from _switches(answer)
    job, plan = answer.job, answer.plan
    if job.model.expert_kinds and job.workload.imbalance < UNEVEN:
        uneven = job.workload.model_copy(update={"imbalance": UNEVEN})
        yield from _priced(
            answer, "an expert gets twice the mean load", "compute, ep_comm", "the router's load in the log",
            job=replace(job, workload=uneven),
        )  # fmt: skip
    for axis, value, cause, advice in _plans(plan):
        other = changed(answer, axis, value)
        if other is not None:
            yield from _priced(
                answer, cause, "memory" if axis != "recompute" else "compute", advice, plan=other
            )


class _Slow(NamedTuple):
    """A rate of the cluster that may be less: its field, how much of it is tried, and what to look at."""

    field: str
    share: float
    cause: str
    term: str
    advice: str


_SLOW: Final = (
    _Slow("network_share", SLOW_NETWORK, "network at half its rate", "dp_comm, pp_comm, ep_comm",
          "nccl-tests; NCCL_DEBUG=INFO: no NET/Socket"),
    _Slow("scaleup_share", SLOW_LINKS, "fast links not in use", "tp_comm", "nvidia-smi topo -m; NCCL_DEBUG"),
    _Slow("compute_share", SLOW_CLOCKS, "accelerators at 80% of their rate", "compute",
          "nvidia-smi -q -d PERFORMANCE; planner check"),
)  # fmt: skip


def _links(answer: Estimate) -> Iterator[Suspect]:
    """Yield the plan on slower links and slower accelerators."""
    job, pool = answer.job, answer.job.hardware.pool
    wide = job.gpus > pool.scaleup_domain and pool.network is not None
    present = {"network_share": wide, "scaleup_share": job.gpus > 1, "compute_share": True}
    for one in _SLOW:
        if present[one.field]:
            now = float(getattr(pool, one.field) or 1.0)
            share = Sourced(now * one.share, f"{now * one.share:g}", "assumed", "estimated")
            cluster = job.hardware.model_copy(update={"pools": (pool.model_copy(update={one.field: share}),)})
            yield from _priced(answer, one.cause, one.term, one.advice, job=replace(job, hardware=cluster))


class _Switch(NamedTuple):
    """Traits that a run may have instead: the degree that has to be above one, what to look at."""

    degree: str
    traits: Mapping[str, Any]
    cause: str
    term: str
    advice: str


_SWITCHES: Final = (
    _Switch("dp", {"dp_exposed": 1.0, "sharded_exposed": 1.0}, "data parallel traffic not hidden", "dp_comm",
            "overlap or prefetch flags of the file"),
    _Switch("tp", {"tp_exposed": 1.0}, "tensor parallel traffic not hidden", "tp_comm",
            "tp overlap flags; a smaller --tp"),
    _Switch("cp", {"cp_exposed": 1.0}, "context parallel traffic not hidden", "cp_comm",
            "another --cp-method, a smaller --cp"),
    _Switch("pp", {"pp_exposed": 1.0, "plain_pp_exposed": 1.0}, "pipeline messages not hidden", "pp_comm",
            "p2p overlap flags; fewer stages"),
    _Switch("", {"attention": "unfused"}, "attention without a fused kernel", "compute, activations",
            "the attention backend that the log names"),
    _Switch("", {"compiled": False, "fused_norm": False, "fused_activation": False, "fused_rope": False},
            "norms and activations not fused", "compute", "fused kernels or torch.compile in use"),
    _Switch("", {"vocab_parallel_loss": False, "loss_chunks": 1.0}, "logits in full on each rank",
            "activations", "a fused or chunked cross entropy"),
)  # fmt: skip


def _switches(answer: Estimate) -> Iterator[Suspect]:
    """Yield the plan on the runtime without one of its helps."""
    now = answer.runtime.traits
    for one in _SWITCHES:
        differs = any(now.value_of(name) != value for name, value in one.traits.items())
        if differs and (not one.degree or getattr(answer.plan, one.degree) > 1):
            slow = answer.runtime.with_traits(**one.traits)
            yield from _priced(answer, one.cause, one.term, one.advice, runtime=slow)


def _plans(plan: Plan) -> Iterator[tuple[str, Any, str, str]]:
    """Yield what the run may do that the plan does not say."""
    if plan.recompute != "full":
        yield "recompute", "full", "full recompute is on", "checkpointing flags of the file"
    if plan.recompute != "none":
        yield "recompute", "none", "recompute is off", "checkpointing flags of the file"
    if plan.sequence_parallel:
        yield "sequence_parallel", False, "sequence parallelism is off", "--sequence-parallel in the file"
    if plan.zero:
        yield "zero", 0, "states are not sharded", "ZeRO or FSDP flags of the file"
    twice = "micro-batches twice as large"
    yield "micro_batch", plan.micro_batch * 2, twice, "micro-batch size of the file"


def _priced(
    answer: Estimate,
    cause: str,
    term: str,
    advice: str,
    *,
    plan: Plan | None = None,
    job: Job | None = None,
    runtime: Runtime | None = None,
) -> Iterator[Suspect]:
    found = price(plan or answer.plan, job or answer.job, runtime or answer.runtime, answer.capacity)
    if isinstance(found, Estimate):
        yield Suspect(cause, term, advice, found)


def diagnosis_page(told: Diagnosis) -> Page:
    """Return a diagnosis for people, on one screen."""
    answer, observed = told.answer, told.observed
    page: Page = [f"{job_line(answer.job, answer.runtime)}\nPlan: {layout(answer.plan)}"]
    page.append(" ".join([*_speed_words(told), *_memory_words(told)]))
    if told.causes:
        page += [_head(told), Table(tuple(_cause_row(told, one) for one in told.causes))]
    elif told.gap is not None and told.gap > 0 and not _inside(told):
        page.append("No known cause takes that long: look at data loading, logging, saving and stragglers.")
    if observed.out_of_memory and answer.peak <= answer.capacity:
        page.append(
            "Also possible: another process on the device (nvidia-smi); fragments "
            "(PYTORCH_ALLOC_CONF=expandable_segments:True)."
        )
    if observed.out_of_memory:
        page += remedy_table(remedies(answer))
    if told.faster:
        words = "; ".join(
            f"{one.axis.replace('_', '-')} {one.before} to {one.after} {significant(one.answer.step, 3)} s "
            f"({one.answer.step / answer.step - 1:+.0%})"
            for one in told.faster
            if isinstance(one.answer, Estimate)
        )
        page.append(f"Faster by one change, by the estimate: {words}.")
    return [
        *page,
        "Next: `planner search` with the same options ranks all plans; `planner explain` shows every term.",
    ]


def _head(told: Diagnosis) -> str:
    """Return what the causes are, and whether one of them alone would do."""
    if told.observed.out_of_memory:
        return "What would not fit, smallest first:"
    seconds = told.observed.seconds or told.answer.step
    off = min(abs(one.answer.step / seconds - 1) for one in told.causes)
    if off <= ABOUT:
        return "What would take about as long:"
    return (
        f"No one cause takes about {significant(seconds, 3)} s; the nearest, of which several may be at work:"
    )


def _inside(told: Diagnosis) -> bool:
    seconds = told.observed.seconds
    return seconds is not None and _as_expected(told.answer, seconds)


def _as_expected(answer: Estimate, seconds: float) -> bool:
    return is_as_expected(seconds, answer.step, max(WORTH, answer.error_band or 0.0))


def _speed_words(told: Diagnosis) -> list[str]:
    """Return measured beside estimated time, and what limits the plan by itself."""
    answer, seconds, gap = told.answer, told.observed.seconds, told.gap
    limited = f"The plan itself is limited by {limits_said(answer)}."
    band = "no band" if answer.error_band is None else f"± {rounded(answer.error_band)}"
    estimated = f"{significant(answer.step, 3)} s ({band}), MFU {percent(answer.mfu)}"
    if seconds is None or gap is None:
        return [f"Estimated: {estimated}.", limited]
    verdict = (
        "within the error band" if _inside(told) else f"{abs(gap):.0%} {'longer' if gap > 0 else 'shorter'}"
    )
    source = f" ({told.observed.source})" if told.observed.source else ""
    mfu = percent(answer.mfu * answer.step / seconds)
    measured = f"Measured{source}: {significant(seconds, 4)} s a step, MFU {mfu}"
    doubt = (
        f"No accelerator is that fast: was a step of {answer.job.workload.global_batch:,} sequences on "
        f"{answer.job.gpus:,} accelerators timed, and not a micro-batch?"
    )
    beyond = answer.mfu * answer.step > seconds
    return [f"{measured}; estimated: {estimated}: {verdict}.", limited, *[doubt] * beyond]


def _memory_words(told: Diagnosis) -> list[str]:
    """Return measured beside estimated memory, and what holds it."""
    answer, peak = told.answer, told.observed.peak
    if peak is None and not told.observed.out_of_memory:
        return []
    seen = f"{peak / GIB:.1f} GiB seen, " if peak is not None else ""
    fullest = max(answer.stages, key=lambda stage: stage.total)
    parts = {name: getattr(fullest, name) / GIB for name in MEMORY_WORDS if name != "total"}
    largest = sorted(parts.items(), key=lambda item: -item[1])[:4]
    words = [
        f"Memory: {seen}{answer.peak / GIB:.1f} estimated of {answer.capacity / GIB:.1f}, on stage "
        f"{fullest.stage}: {', '.join(f'{name} {gib:.1f}' for name, gib in largest)}."
    ]
    off = 0.0 if peak is None else peak / answer.peak - 1.0
    if abs(off) > answer.memory_band:
        words.append(f"That is {off:+.0%}, beyond the band of ± {percent(answer.memory_band)}.")
    if told.observed.out_of_memory and answer.peak > answer.capacity:
        words.append("So it had to run out.")
    if peak is not None and peak > FULL * answer.capacity and not told.observed.out_of_memory:
        words.append("So full, the allocator may free and start over in each step: that costs time.")
    return words


def _cause_row(told: Diagnosis, one: Suspect) -> dict[str, str]:
    explained = told.explained(one)
    figure = (
        {"GiB": f"{one.answer.peak / GIB:.1f}"}
        if told.observed.out_of_memory
        else {
            "s/step": significant(one.answer.step, 3),
            "gap": "-" if explained is None else percent(explained, 0),
        }
    )
    return {"cause": one.cause} | figure | {"look at": one.advice}


def diagnosis_document(told: Diagnosis) -> Document:
    """Return a diagnosis as JSON."""
    found = remedies(told.answer) if told.observed.out_of_memory else None
    document: Document = plain(
        {
            "schema": DIAGNOSIS,
            "step_time_s": told.observed.seconds,
            "peak_gib": None if told.observed.peak is None else told.observed.peak / GIB,
            "out_of_memory": told.observed.out_of_memory,
            "source": told.observed.source,
            "gap_share": told.gap,
            "within_band": _inside(told),
            "causes": [
                {"cause": one.cause, "term": one.term, "look_at": one.advice, "step_time_s": one.answer.step,
                 "peak_gib": one.answer.peak / GIB, "explains": told.explained(one)}
                for one in told.causes
            ],
            "faster": [
                {"axis": one.axis, "from": one.before, "to": one.after, "step_time_s": one.answer.step}
                for one in told.faster if isinstance(one.answer, Estimate)
            ],
            "would_fit": None if found is None else [remedy_record(one) for one in found.single],
            "estimate": estimate_document(told.answer, {}),
        }
    )  # fmt: skip
    return document
