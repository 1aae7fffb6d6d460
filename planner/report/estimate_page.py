"""One estimate for people: the plan, what is wrong with it, time, memory and cost, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.calibrate.releases import title_of
from planner.cost.estimate import Estimate, StageBytes
from planner.cost.money import quote_of
from planner.cost.price import Unpriced
from planner.inputs.measured_bands import error_bands
from planner.plan import Plan
from planner.report.as_json import SENT_KEYS, TIME_KEYS
from planner.report.hosting import hosting_lines
from planner.report.layout import layout
from planner.report.limits import waits_for_lengths
from planner.report.page import Page, Table, counted, listed, significant, split_words
from planner.report.plan_columns import (
    DAYS,
    ENERGY,
    HFU,
    LIMITED,
    MFU,
    PEAK,
    PER_STEP,
    RATE,
    RISK,
    STEP,
    TO_TRAIN,
    TOKENS,
    plan_record,
)
from planner.report.settings_line import left_out_lines, settings_line
from planner.report.unequal import lengths_page
from planner.report.unproven import unproven
from planner.report.view import figure, figures
from planner.runtimes.family import Job, Runtime
from planner.techniques.methods import METHODS
from planner.units import DAY, GIB, HOUR, TFLOP, percent, rounded, show

MEGAWATT_HOUR: Final = 1e6 * HOUR

PRICE: Final = figure("rate", "price of an accelerator", "", str)
ENERGY_TO_TRAIN: Final = figure("energy_to_train", "energy to train, at most", "", str)

MOST_STAGES: Final = 8
"""Stages up to which people are shown all."""

TIME_WORDS: Final = {
    "compute": "compute, recompute included",
    "tp_comm": "tensor parallel communication, exposed",
    "cp_comm": "context parallel communication, exposed",
    "ep_comm": "expert parallel communication, exposed",
    "pp_comm": "pipeline messages, exposed",
    "dp_comm": "data parallel communication, exposed",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer step",
    "offload": "transfers to host memory",
    "other": "waiting for the host",
}


def time_words(answer: Estimate) -> Mapping[str, str]:
    """Return the words of a step's terms; a bubble without stages is what unequal lengths make ranks wait."""
    waits = {"bubble": "waiting for the busiest rank"} if waits_for_lengths(answer) else {}
    return TIME_WORDS | waits


MEMORY_WORDS: Final = {
    "weights": "weights",
    "gradients": "grads",
    "optimizer": "optim",
    "activations": "acts",
    "workspace": "work",
    "reserve": "reserve",
    "framework": "frame",
    "total": "total",
}
"""What a stage holds at its peak moment, and the heads of its columns."""


def job_line(job: Job, runtime: Runtime) -> str:
    """Return model, cluster, runtime and workload in a paragraph."""
    work = job.workload
    fine = f", {work.method}" if work.method != "full" else ""
    many, batch = counted(job.gpus, "accelerator"), counted(work.global_batch, "sequence")
    many = f"{job.gpus:,} of {counted(job.gpus + job.idle, 'accelerator')}" if job.idle else many
    return (
        f"{job.model.name} ({job.model.params / 1e9:.4g} B parameters) on {many} of {job.hardware.name}, "
        f"{title_of(runtime)}; {batch} of {counted(work.seq_len, 'token')}, "
        f"{work.precision}, {work.optimizer}{fine}"
    )


def estimate_page(
    answer: Estimate | Unpriced, defaults: Mapping[str, Any], remedy: Iterable[str | Table] = ()
) -> Page:
    """Return the page of one estimate; ``remedy``: what would make it fit, where it does not."""
    page: Page = [job_line(answer.job, answer.runtime), *plan_lines(answer), *verdict(answer)]
    page += remedy
    if isinstance(answer, Estimate):
        page += [
            _figures(answer),
            *adapter_lines(answer.job.workload.method),
            _time_table(answer),
            *lengths_page(answer),
            memory_table(shown_stages(answer)),
            *left_out(answer),
            sent_line(answer),
            *trust(answer),
        ]
    page += next_step(answer)
    if defaults:
        page.append(f"Defaults used: {listed(defaults)}.")
    return page


def plan_lines(answer: Estimate | Unpriced) -> list[str]:
    """Return the plan, its settings, and those that it does not run."""
    not_run = left_out_lines(answer) if isinstance(answer, Estimate) else []
    return [f"Plan: {layout(answer.plan)}{_split(answer.plan)}", *settings_line(answer), *not_run]


def _split(plan: Plan) -> str:
    if plan.stage_layers is None or len(set(plan.stage_layers)) == 1:
        return ""
    return f", layers {split_words(plan.split_text)}"


def broken(answer: Estimate | Unpriced) -> Page:
    """Return which rules a plan breaks, with the nearest that keeps each."""
    if not answer.violations:
        return []
    faults = "\n".join(
        f"  {one.rule}: found {one.found}; expected {one.expected}"
        + f"; nearest: {one.nearest}" * bool(one.nearest)
        for one in answer.violations
    )
    return [f"{answer.runtime.title} cannot run this plan:\n{faults}"]


def verdict(answer: Estimate | Unpriced) -> Page:
    """Return what is wrong with a plan, rule by rule, and by how much it does not fit."""
    page = broken(answer)
    if isinstance(answer, Estimate) and answer.peak > answer.capacity:
        missing = (answer.peak - answer.capacity) / GIB
        page.append(f"Does not fit: the peak stage is {missing:.1f} GiB over.")
    if isinstance(answer, Estimate):
        page += hosting_lines(answer)
    return page


def next_step(answer: Estimate | Unpriced) -> Page:
    """Return which command finds what runs, where a plan does not."""
    if answer.feasible:
        return []
    return ["`planner search` with the same options, and no axes, ranks plans that run and fit."]


def _figures(answer: Estimate) -> Table:
    columns = [STEP, TOKENS, RATE, MFU, HFU, PEAK, RISK, LIMITED, PRICE, PER_STEP, ENERGY]
    if answer.bill.days_to_train is not None:
        columns += [DAYS, TO_TRAIN, ENERGY_TO_TRAIN]
    said = {"rate": rate(answer), "energy_to_train": energy_to_train(answer)}
    return figures(columns, plan_record(answer) | said)


def adapter_lines(method: str) -> Page:
    """Say what MFU counts of a frozen model, or where nothing runs backward."""
    known = METHODS[method]
    if known.forwards:
        return [f"MFU and HFU count what {method} computes: {known.forwards:g} forward passes."]
    if not known.adapts:
        return []
    return [
        f"MFU and HFU count what {method} computes: of frozen weights two thirds, since they have no weight "
        "gradients, and all of attention, as Megatron-Bridge counts it; adapters are left out."
    ]


def rate(answer: Estimate) -> str:
    """Return what an accelerator costs for an hour, with seller, kind and day, or that it is not known."""
    quote = quote_of(answer.job.hardware.pool)
    return "not known" if quote is None else quote.text


def energy_to_train(answer: Estimate) -> str:
    """Return megawatt hours of all steps, or that the rated power is not known."""
    joules, days = answer.bill.joules_per_step, answer.bill.days_to_train
    if joules is None or days is None:
        return "no rated power known"
    return f"{significant(joules * days * DAY / answer.step / MEGAWATT_HOUR)} MWh"


def _time_table(answer: Estimate) -> Table:
    terms = {name: getattr(answer.time, name) for name in TIME_KEYS}
    rows = [
        {
            "where the step goes": time_words(answer)[name],
            "s": significant(value),
            "share": percent(value / answer.step),
        }
        for name, value in terms.items()
        if value > 1e-6 * answer.step
    ]
    return Table(tuple(rows))


def memory_table(stages: Iterable[StageBytes]) -> Table:
    """Return the memory of stages at their peak moments, in GiB."""
    return Table(
        tuple(
            {"stage": str(stage.stage), "peak at": stage.moment}
            | {head: f"{getattr(stage, name) / GIB:.2f}" for name, head in MEMORY_WORDS.items()}
            for stage in stages
        )
    )


def shown_stages(answer: Estimate, first: int = 6) -> tuple[StageBytes, ...]:
    """Return the stages that people see: all where they are few, else the ``first``, fullest and last."""
    stages = answer.stages
    if len(stages) <= MOST_STAGES:
        return tuple(stages)
    fullest = max(range(len(stages)), key=lambda place: float(stages[place].total))
    return tuple(stages[place] for place in sorted({*range(first), fullest, len(stages) - 1}))


def left_out(answer: Estimate) -> Page:
    """Say that stages are left out, where they are many."""
    stages = len(answer.stages)
    return (
        []
        if stages <= MOST_STAGES
        else [f"Of {stages} stages the first, the peak and the last are shown; JSON has all."]
    )


def sent_line(answer: Estimate) -> str:
    """Return what one rank sends in a step."""
    sent = {name: getattr(answer.sent, name) for name in SENT_KEYS}
    told = ", ".join(f"{name} {show(nbytes, 'byte')}" for name, nbytes in sent.items() if nbytes > 0)
    return f"Memory is in GiB. Each rank sends per step: {told or 'nothing'}."


def _nearest(runtime: str, accelerator: str) -> str:
    """Return the bands of the same runtime elsewhere, and of others on the same accelerator."""
    near = [key for key in error_bands() if (key[0] == runtime) != (key[1] == accelerator)]
    told = [f"{percent(error_bands()[key])} for {key[0]} on {key[1]}" for key in near]
    return f"; it is {', '.join(told)}" if told else ""


def _there(accelerator: str) -> str:
    """Return the narrowest band of another runtime on the same accelerator, where there is one."""
    near = {key[0]: band for key, band in error_bands().items() if key[1] == accelerator}
    least = min(near, key=near.__getitem__, default=None)
    return f" ({least}'s ± {percent(near[least])})" if least is not None else ""


def _unknown(answer: Estimate) -> str:
    """Return why a step has no error band."""
    runtime, pool = answer.runtime.name, answer.job.hardware.pool
    name, own = pool.accelerator.name, pool.calibration
    near = _nearest(runtime, name)
    if own is not None and runtime in own.runtimes:
        told = f"{counted(int(own.runs), 'run')} of this site's own and no others; 9 layouts would tell it"
        return f"{runtime} on {name} was measured by {told}{near}"
    return f"{runtime} on {name} was never validated against measured runs{near}"


def trust(answer: Estimate) -> Page:
    """Return how far the figures may be off."""
    band = (
        f"Error band: none, {_unknown(answer)}."
        if answer.error_band is None
        else f"Error band: ± {percent(answer.error_band)}, from {answer.band_basis}."
    )
    share = answer.extrapolated_share
    far = f" {percent(share)} of the step lies outside the range of the kernel curves." if share > 0 else ""
    template = (
        " The profile is a template of weak sources: measure it first."
        if answer.job.hardware.template
        else ""
    )
    memory = f" Memory: ± {percent(answer.memory_band)}, for 90% of runs.{kept_free(answer)}"
    return [band + far + memory + template, *unproven(answer)]


WORTH_A_WORD: Final = 0.005
"""Share of a step from which it is told in short. [-]"""


def short_trust(answer: Estimate) -> list[str]:
    """Return the bands of a step and of its memory in one line, and what makes them doubtful."""
    name = answer.job.hardware.pool.accelerator.name
    band = (
        f"time never validated for {answer.runtime.name} on {name}{_there(name)}"
        if answer.error_band is None
        else f"time ± {rounded(answer.error_band)}{_lent(answer)}"
    )
    share = answer.extrapolated_share
    far = f" ({percent(share, 0)} beyond measured kernels)" if share >= WORTH_A_WORD else ""
    template = "; the profile is a template of weak sources" if answer.job.hardware.template else ""
    memory = f"; memory ± {rounded(answer.memory_band)}"
    return [f"Error band (90%): {band}{far}{memory}{template}.{kept_free(answer)}"]


FREE_WORTH_A_WORD: Final = GIB
"""Bytes that an allocator keeps free from which it is told. [byte]"""


def kept_free(answer: Estimate) -> str:
    """Return what the device may show in use where its allocator keeps much free."""
    if answer.shown < answer.peak + FREE_WORTH_A_WORD:
        return ""
    return f" The device may show {answer.shown / GIB:.1f} GiB in use, free blocks of its allocator included."


def _lent(answer: Estimate) -> str:
    """Return whose the band is, where no run of just this runtime, release and accelerator was measured."""
    lender, _, there = answer.band_lender.partition(" on ")
    here = there == answer.job.hardware.pool.accelerator.name
    verb = "borrowed from" if there else "from"
    return f", {verb} {lender if here else answer.band_lender}" if lender else ""


def first_steps(answer: Estimate, peak: float | None = None) -> dict[str, str]:
    """Return what the log of the first steps should show, with another ``peak`` in bytes where given."""
    used = answer.peak if peak is None else peak
    return {
        "step time": f"{significant(answer.step)} s",
        "tokens/s on one accelerator": f"{answer.tokens_per_second:,.0f}",
        "model TFLOP/s on one accelerator": f"{answer.model_rate / TFLOP:.1f}",
        "device memory in use": f"{used / GIB:.1f} of {answer.capacity / GIB:.1f} GiB",
        "micro-batches of a step": f"{answer.plan.num_microbatches:.0f}",
    }
