"""A measured step as MFU and HFU under stated conventions, and what could explain its gap to the estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.formulas.model_flops import model_flops
from planner.inputs.bands import is_as_expected
from planner.report.as_json import Document, estimate_document, plain
from planner.report.estimate_page import adapter_lines, job_line
from planner.report.layout import layout
from planner.report.page import Page, Table, counted, listed, significant
from planner.report.settings_line import settings_line
from planner.report.waterfall import Anatomy, WaterfallPart, waterfall
from planner.units import GIB, TFLOP, percent

MFU: Final = "planner/mfu/1"

SMALL: Final = 0.005
"""Share of the estimated step below which a part is left out of the gap's table for people."""


@dataclass(frozen=True)
class Convention:
    """One way to count the FLOPs of a step."""

    name: str
    counts: str
    source: str
    """What it is called, what it counts, and where it is from."""
    flops: float
    """FLOPs of a step of all accelerators. [FLOP]"""


@dataclass(frozen=True)
class Explains:
    """One part of the estimate beside the gap between measured and estimated step."""

    part: WaterfallPart
    """The part."""
    factor: float | None
    """How many times as long it would have to take to close the gap alone; None where it is zero. [-]"""
    hidden_share: float
    """Share of the gap that its hidden communication would explain if nothing hid it. [-]"""


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step of a plan."""

    answer: Estimate
    """The plan as the planner prices it."""
    seconds: float
    """Measured time of an optimizer step. [s]"""

    @property
    def gap(self) -> float:
        """Measured less estimated. [s]"""
        return self.seconds - self.answer.step

    def share(self, flops: float) -> float:
        """Return FLOPs of a step over what the accelerators could do in the measured time. [-]"""
        return flops / self.seconds / self.answer.job.gpus / self.answer.peak_rate


def conventions(answer: Estimate) -> tuple[Convention, ...]:
    """Return the FLOPs of a step under each convention."""
    job = answer.job
    tokens, active = float(job.workload.tokens_per_step), float(job.model.active_params)
    again = answer.model_flops + answer.recompute_flops
    return (
        Convention(
            "MFU", "GEMMs of the model with half of causal attention, no recompute",
            "Megatron-LM, num_floating_point_operations", answer.model_flops,
        ),
        Convention(
            "HFU", _again(answer.plan.recompute),
            "arXiv:2205.05198, sec. 6.3", again,
        ),
        Convention(
            "PaLM's MFU", "6 for each active parameter and all of attention, masked or not",
            "arXiv:2204.02311, app. B", float(model_flops(tokens, active, _reach(answer), 1.0)),
        ),
        Convention(
            "6ND", "6 for each active parameter, no attention",
            "arXiv:2001.08361, sec. 2.1", float(model_flops(tokens, active, 0.0, 0.0)),
        ),
    )  # fmt: skip


def _again(recompute: str) -> str:
    """Return what HFU counts beside MFU."""
    if recompute == "none":
        return "the same: nothing is recomputed"
    return f"the same and what {recompute} recompute repeats"


def _reach(answer: Estimate) -> float:
    """Sum over layers of heads times head sizes times the keys that a query meets without a causal mask."""
    model, seq = answer.job.model, answer.job.workload.seq_len
    mixers = [mixer for name in model.layers if (mixer := model.blocks[name].attention)]
    return float(sum(m.heads * sum(m.core_widths) * min(m.reach or seq, seq) for m in mixers))


def explanations(measured: MeasuredStep) -> tuple[Explains, ...]:
    """Return for each part of the estimate how it could explain the gap."""
    gap = measured.gap
    return tuple(
        Explains(
            part,
            1 + gap / part.seconds if part.seconds > 1e-9 * measured.answer.step else None,
            min(1.0, part.hidden / gap) if gap > 0 else 0.0,
        )
        for part in waterfall(Anatomy(measured.answer))
    )


def doubts(measured: MeasuredStep) -> Iterator[str]:
    """Yield what is wrong with a measurement, or makes it hard to believe."""
    if measured.share(measured.answer.model_flops) > 1:
        yield (
            "MFU is above 100%, which no device reaches: is the time that of a whole optimizer step, is the "
            "batch counted once, are all accelerators counted, is the precision the one that ran?"
        )
    elif measured.seconds < 0.8 * measured.answer.step:
        yield (
            "Measured is far faster than the estimate: check batch, sequence length and layers first, then "
            "that the plan and the runtime's traits are those of the run."
        )
    answer = measured.answer
    if answer.peak > answer.capacity:
        yield (
            f"The estimate is of a plan that does not fit, {answer.peak / GIB:.1f} of "
            f"{answer.capacity / GIB:.1f} GiB, so it is not what ran: say its --recompute, --zero, "
            "--micro-batch and degrees."
        )
    band = answer.error_band
    if band is not None and is_as_expected(measured.seconds, answer.step, band):
        yield f"The gap lies within the estimate's error band, {percent(band)}: nothing needs explaining."


def mfu_page(measured: MeasuredStep, defaults: Mapping[str, object] = MappingProxyType({})) -> Page:
    """Return a measured step for people; ``defaults`` were taken for what was not given."""
    answer, seconds = measured.answer, measured.seconds
    tokens = answer.job.workload.tokens_per_step
    page: Page = [
        job_line(answer.job, answer.runtime),
        f"Plan: {layout(answer.plan)}",
        *settings_line(answer),
    ]
    page.append(
        f"Measured {significant(seconds)} s for a step of {tokens:,} tokens: {tokens / seconds:,.0f} "
        f"tokens/s, {tokens / seconds / answer.job.gpus:,.0f} on each of "
        f"{counted(answer.job.gpus, 'accelerator')}, "
        f"whose dense peak is {answer.peak_rate / TFLOP:,.0f} TFLOP/s."
    )
    page.append(
        Table(
            tuple(
                {
                    "convention": row.name,
                    "share": percent(measured.share(row.flops)),
                    "TFLOP/s": f"{row.flops / seconds / answer.job.gpus / TFLOP:.1f}",
                }
                for row in conventions(answer)
            )
        )
    )
    told = (f"  {row.name} counts {row.counts} ({row.source})" for row in conventions(answer))
    page += ["\n".join(told), *adapter_lines(answer.job.workload.method)]
    page.append(
        f"The estimate is {significant(answer.step)} s, MFU {percent(answer.mfu)}: measured is "
        f"{measured.gap / answer.step:+.1%}, {measured.gap:+.4g} s."
    )
    page += list(doubts(measured))
    if measured.gap > 0:
        page += ["What could explain the gap, one part at a time:", _gap_table(measured)]
    return page + ([f"Defaults used: {listed(defaults)}."] if defaults else [])


def _gap_table(measured: MeasuredStep) -> Table:
    step = measured.answer.step
    rows = [
        {
            "part of the estimate": row.part.meaning,
            "s": significant(row.part.seconds),
            "times as long": "-" if row.factor is None else significant(row.factor, 3),
            "unhidden explains": percent(row.hidden_share, 0) if row.hidden_share else "-",
        }
        for row in explanations(measured)
        if max(row.part.seconds, row.part.hidden) >= SMALL * step and row.part.name != "useful"
    ]
    return Table(tuple(rows))


def mfu_document(measured: MeasuredStep) -> Document:
    """Return a measured step as JSON."""
    answer = measured.answer
    tokens = answer.job.workload.tokens_per_step
    document: Document = plain(
        {
            "schema": MFU,
            "step_time_s": measured.seconds,
            "tokens_per_s": tokens / measured.seconds,
            "tokens_per_s_per_gpu": tokens / measured.seconds / answer.job.gpus,
            "model_tflops_per_gpu": answer.model_flops / measured.seconds / answer.job.gpus / TFLOP,
            "peak_tflops": answer.peak_rate / TFLOP,
            "mfu": measured.share(answer.model_flops),
            "hfu": measured.share(answer.model_flops + answer.recompute_flops),
            "conventions": [
                {"name": row.name, "counts": row.counts, "source": row.source, "flops_per_step": row.flops,
                 "share": measured.share(row.flops)}
                for row in conventions(answer)
            ],
            "gap_s": measured.gap,
            "gap_share": measured.gap / answer.step,
            "explains": [
                {"part": row.part.name, "meaning": row.part.meaning, "time_s": row.part.seconds,
                 "hidden_s": row.part.hidden, "factor": row.factor, "hidden_share": row.hidden_share}
                for row in explanations(measured)
            ],
            "doubts": list(doubts(measured)),
            "estimate": estimate_document(answer, {}),
        }
    )  # fmt: skip
    return document
