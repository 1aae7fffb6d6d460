"""``planner simulate PLAN``: one step of a saved plan, with the cost model's times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.cli.options import Format
from planner.cli.output import emit_document
from planner.cli.plans import read_plan
from planner.cli.simulate_asked import Answer, check_size
from planner.cli.simulate_beside import SimulatedBeside, WantedRival, check_pieces, read_beside
from planner.cli.simulation_page import document, figures, show
from planner.cli.versions import version_notes
from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.errors import Infeasible, UnsupportedPlan
from planner.question.formats import check_precision
from planner.question.reading import Reading
from planner.report.page import counted, significant
from planner.rules import violations
from planner.simulate.plan import play_plan
from planner.simulate.plan_fill import encoder_component, filled_plan, fills, without_encoder
from planner.simulate.plan_trace import plan_trace
from planner.units import GIB, percent

if TYPE_CHECKING:
    from planner.report.plan_file import PlanFile
    from planner.simulate.plan import PlayedPlan


ENCODER: Final = "encoder"
"""What `--fill` calls a plan's own frozen encoder."""

Frozen = tuple[list[str], str | None]
"""What `--fill` and `--fill-parts` say."""

Asked = tuple[bool, WantedRival, int | None]
"""Whether the plan's encoder fills idle time, other components, and the parts of a layer's batch."""


def simulate_plan(
    path: Path, reading: Reading, spread: tuple[float, int], answer: Answer, frozen: Frozen = ([], None)
) -> None:
    """Play a saved plan.

    ``reading``: faults of the options so far; ``spread``: relative spread of pass times, and its seed;
    ``answer``: how the step is told; ``frozen``: components that run in idle time, and the parts of a layer's
    batch.

    Raises
    ------
    InputError
        With every fault of the file or the options.
    UnsupportedPlan, Infeasible
        If the plan breaks a rule, or does not fit.
    """
    saved = reading.attempt(read_plan, path)
    own = ENCODER in frozen[0]
    times = [text for text in frozen[0] if text != ENCODER]
    wanted = read_beside(reading, None, times, None if own and not times else frozen[1])
    parts = reading.count("--fill-parts", frozen[1])
    if saved is not None and own and not fills(saved.job):
        left = "no encoder that is left as it is, projectors too (--freeze-encoder)"
        expected = f"times of layers: the plan has {left}"
        reading.fault("--fill", ENCODER, expected)
    if saved is not None:
        check_precision(saved.job.hardware, saved.job.workload, reading)
        chunks = int(saved.plan.pp * saved.plan.vpp)
        check_size(reading, chunks, int(saved.plan.num_microbatches), f"{path}: plan.num_microbatches")
        encoder = saved.job.model.encoder
        layers = sum(map(len, wanted.components)) + (len(encoder.layers) if own and encoder else 0)
        check_pieces(reading, parts or int(saved.plan.num_microbatches), layers)
    reading.finish()
    if saved is None:
        raise AssertionError("a fault was not told")
    answer.check_trace(chunks, int(saved.plan.num_microbatches))
    for line in (*saved.changed, *version_notes([saved.job.hardware])):
        answer.progress.tell(f"note: {line}")
    refuse_broken(saved, answer.output)
    with answer.progress as progress:
        progress(0.0, f"playing {path}")
        played = play_plan(
            saved.plan, saved.job, saved.runtime, saved.names.memory_limit, *spread, saved.orders
        )
        beside = beside_plan(saved, played, (own, wanted, parts), spread) if frozen[0] else None
        answer.write_trace(lambda: plan_trace(played))
    schedule = saved.plan.schedule if saved.order is None else "synthesized"
    show(schedule, headline(saved, played), played.record, answer.output, beside)
    answer.draw(played.timeline, int(saved.plan.pp), chunks)
    known = played.estimate
    if not known.feasible:
        peak, capacity = known.peak / GIB, known.capacity / GIB
        raise Infeasible(f"{path}: the plan does not fit: {peak:.1f} GiB of {capacity:.1f} GiB")


def beside_plan(
    saved: PlanFile, played: PlayedPlan, asked: Asked, spread: tuple[float, int]
) -> SimulatedBeside:
    """Play frozen components in the idle time of a plan, its own encoder out of the first stage."""
    own, wanted, parts = asked
    plan, job, runtime, components = played.estimate.plan, saved.job, saved.runtime, wanted.components
    if own:
        components = (*components, encoder_component(plan, job, runtime))
        played = play_plan(plan, *without_encoder(plan, job, runtime), None, *spread, saved.orders)
    filled = filled_plan(played, components, parts or int(plan.num_microbatches))
    return SimulatedBeside(wanted, None, filled)


def refuse_broken(saved: PlanFile, output: Format) -> None:
    """Refuse a plan that breaks a rule; JSON is written in full.

    Raises `UnsupportedPlan` with every rule that it breaks.
    """
    plan, job = saved.plan, saved.job
    broken = violations(all_rules(plan, case_of(plan, job, saved.runtime)))
    reasons = [f"{fault.rule}: {fault.found}; needs {fault.expected}" for fault in broken]
    if reasons:
        if output is Format.json:
            emit_document(document(plan.schedule, None) | {"violations": reasons})
        raise UnsupportedPlan("\n".join(reasons))


def headline(saved: PlanFile, played: PlayedPlan) -> str:
    """Return what was played, its figures, and how far the price is from them."""
    plan, step = saved.plan, played.record
    price, seconds = played.estimate.step, played.step
    named = f" under {plan.schedule}" if saved.order is not None else ""
    off = (
        f"{named}, {percent(abs(price / seconds - 1), 2)} {'more' if price >= seconds else 'less'} for a step"
    )
    return (
        f"{saved.job.model.name} on {counted(saved.job.gpus, 'accelerator')} of {saved.job.hardware.name}, "
        f"{saved.runtime.name}: {plan.slug}, "
        f"{'an order made for it' if saved.order else plan.schedule}, "
        f"{plan.num_microbatches:.0f} micro-batches. "
        f"{figures(step)}; seconds. The estimate says {significant(price)}"
        f"{', as played' if price == seconds else off}."
    )
