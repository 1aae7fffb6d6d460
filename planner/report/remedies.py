"""What would make a plan fit: the smallest changes in order, each with what it saves and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.cost.price import price
from planner.dataclasses import dataclass, field, replace
from planner.report.explain_neighbours import changed
from planner.report.page import Page, Table, significant
from planner.runtimes.family import Job
from planner.techniques.offload import OFFLOADS
from planner.units import GIB, percent

RISK: Final = 0.05
"""Probability of running out of memory up to which a plan is said to fit, as a search takes it. [-]"""

LEAST: Final = 0.05 * GIB
"""Memory from which on a change is said to save some. [byte]"""

MOST_CHANGES: Final = 3
"""Changes that are tried together, in every choice of them."""

HASSLE: Final = 0.05
"""Share of a step's time for which one change more is not worth it. [-]"""

TUNED: Final = "--method lora"
"""The change after which something else is trained."""

MOST_NODES: Final = 8
"""Nodes that are added at most, until the batch divides. [-]"""

Change = Callable[[Estimate], Estimate | None]
"""Makes and prices a changed plan; None where there is none, or it breaks a rule."""


@dataclass(frozen=True)
class Remedy:
    """A change, or several, and the plan after it."""

    options: tuple[str, ...]
    """What to write on the command line."""
    answer: Estimate
    """The changed plan."""
    saves: float
    """Memory that it saves on the fullest stage. [byte]"""
    longer: float
    """How much longer a step takes, as a share; less than zero where it is faster. [-]"""

    @property
    def fits(self) -> bool:
        """Whether the changed plan fits, with little risk of running out of memory."""
        return self.answer.feasible and self.answer.oom_probability <= RISK


@dataclass(frozen=True)
class Remedies:
    """What each change does alone, in order, and the cheapest few of them that are enough."""

    single: tuple[Remedy, ...]
    """Changes that save memory."""
    enough: Remedy | None
    """Those that fit together and cost the least; None where none do."""


def remedies(answer: Estimate) -> Remedies:
    """Return what would make a plan fit that lacks memory; nothing for one that breaks a rule.

    Of one change to three together those are taken that cost the least time of accelerators, each change
    counted as `HASSLE` of it, what trains something else last; else all that save memory, one on the other.
    """
    if answer.violations:
        return Remedies((), None)
    tried = _Tried(answer, dict(_changes(answer)))
    alone = (tried.remedy((name,)) for name in tried.known)
    single = tuple(one for one in alone if one is not None and one.saves >= LEAST)
    return Remedies(single, _enough(tried, tuple(one.options[0] for one in single)))


@dataclass
class _Tried:
    """Changes of a plan, and the plans after those that were tried, one on the other."""

    answer: Estimate
    known: Mapping[str, Change]
    after: dict[tuple[str, ...], Estimate | None] = field(default_factory=dict)

    def plan(self, names: tuple[str, ...]) -> Estimate | None:
        """Return the plan after some changes; None where one of them is impossible or breaks a rule."""
        if not names:
            return self.answer
        if names not in self.after:
            before = self.plan(names[:-1])
            found = None if before is None else self.known[names[-1]](before)
            self.after[names] = found if found is not None and not found.violations else None
        return self.after[names]

    def remedy(self, names: tuple[str, ...]) -> Remedy | None:
        """Return what some changes do, one on the other."""
        found, plan = self.plan(names), self.answer
        return (
            None
            if found is None
            else Remedy(names, found, plan.peak - found.peak, found.step / plan.step - 1)
        )


def _enough(tried: _Tried, helpful: tuple[str, ...]) -> Remedy | None:
    """Return the few changes that fit together and cost the least."""
    counts = range(1, MOST_CHANGES + 1)
    sets = [names for count in counts for names in combinations(helpful, count) if _apart(names)]
    fitting = [one for names in sets if (one := tried.remedy(names)) is not None and one.fits]
    if fitting:
        return min(fitting, key=_dearness)
    strongest = tuple(dict(zip((name.split()[0] for name in helpful), helpful, strict=True)).values())
    last = tried.remedy(strongest)
    return last if last is not None and last.fits else None


def _apart(names: tuple[str, ...]) -> bool:
    """Whether no two changes are of the same option."""
    return len({name.split()[0] for name in names}) == len(names)


def _dearness(one: Remedy) -> tuple[bool, float]:
    """Return whether something else is trained, and the time of accelerators with what changes cost. [s]"""
    hassle = 1 + HASSLE * len(one.options)
    return TUNED in one.options, one.answer.step * one.answer.job.gpus * hassle


def _changes(answer: Estimate) -> Iterator[tuple[str, Change]]:
    """Yield changes that may save memory, the smallest first; LoRA alone trains something else."""
    plan, runtime, work = answer.plan, answer.runtime, answer.job.workload
    if plan.tp > 1 and not plan.sequence_parallel:
        yield "--sequence-parallel", _axis("sequence_parallel", True)
    for name in ("selective", "full"):
        if name in runtime.recomputes and plan.recompute not in {name, "full"}:
            yield f"--recompute {name}", _axis("recompute", name)
    for stage in runtime.zero_stages:
        if stage > plan.zero and plan.dp * plan.cp > 1:
            yield f"--zero {stage}", _axis("zero", stage)
    if plan.micro_batch > 1:
        yield f"--micro-batch {plan.micro_batch / 2:.0f}", _axis("micro_batch", plan.micro_batch / 2)
    names = (name for name in runtime.offloads if OFFLOADS[name].bare)
    yield from ((f"--offload {name}", _axis("offload", name)) for name in names if name != plan.offload)
    grown = _grown(answer)
    if grown is not None:
        yield f"--gpus {grown}", lambda one: _on(one, replace(one.job, gpus=grown))
    if work.method == "full" and "lora" in runtime.methods:
        tuned = work.model_copy(update={"method": "lora"})
        yield TUNED, lambda one: _on(one, replace(one.job, workload=tuned))


def _axis(name: str, value: Any) -> Change:
    def change(answer: Estimate) -> Estimate | None:
        plan = changed(answer, name, value)
        found = None if plan is None else price(plan, answer.job, answer.runtime, answer.capacity)
        return found if isinstance(found, Estimate) else None

    return change


def _on(answer: Estimate, job: Job) -> Estimate | None:
    """Return the plan on another job, with as many replicas as its accelerators leave."""
    plan = changed(replace(answer, job=job), "tp", answer.plan.tp)
    found = None if plan is None else price(plan, job, answer.runtime, answer.capacity)
    return found if isinstance(found, Estimate) else None


def _grown(answer: Estimate) -> int | None:
    """Return the accelerators with as few nodes more as the plan can use; None where more hold no less."""
    job, per_node = answer.job, answer.job.hardware.pool.gpus_per_node
    if job.hardware.pool.network is None or answer.plan.zero == 0:
        return None
    for nodes in range(1, MOST_NODES + 1):
        gpus = job.gpus + nodes * per_node
        found = _on(answer, replace(job, gpus=gpus))
        if found is not None and not found.violations:
            return gpus
    return None


def lacks_memory(answer: Estimate) -> bool:
    """Whether a plan obeys all rules and does not fit."""
    return not answer.violations and answer.peak > answer.capacity


def remedy_page(answer: Estimate) -> Page:
    """Return what would make a plan fit, in words; nothing where no change saves memory."""
    found = remedies(answer)
    if not found.single:
        return []
    return [*remedy_table(found), remedy_end(found, answer)]


def remedy_table(found: Remedies) -> Page:
    """Return what each change does alone."""
    if not found.single:
        return []
    fits = {one.fits for one in found.single}
    alike = (
        "Any one of these changes makes it fit:" if True in fits else "None of these changes is enough alone:"
    )
    head = "What one change does:" if len(fits) > 1 else alike
    return [head, Table(tuple(_row(one, told=len(fits) > 1) for one in found.single))]


def _row(one: Remedy, told: bool) -> dict[str, str]:
    """Return a change as a line, which says whether it is enough where not all are alike."""
    bill = one.answer.bill.usd_per_step
    fits = {"fits": "yes" if one.fits else "no"} if told else {}
    return {
        "change": " ".join(one.options),
        "saves GiB": f"{one.saves / GIB:.1f}",
        "needs GiB": f"{one.answer.peak / GIB:.1f}",
        "s/step": significant(one.answer.step, 3),
        "time": f"{one.longer:+.1%}",
        "$/step": significant(bill, 3),
        **fits,
    }


def remedy_end(found: Remedies, answer: Estimate) -> str:
    """Return the fewest changes that are enough."""
    enough = found.enough
    if enough is None:
        return (
            "All of them together do not fit; a search with other degrees may: leave --tp, --pp and --cp out."
        )
    after = enough.answer
    return (
        f"The cheapest that fits: {' '.join(enough.options)}, {after.peak / GIB:.1f} of "
        f"{answer.capacity / GIB:.1f} GiB, {significant(after.step, 3)} s a step ({enough.longer:+.1%}), "
        f"risk of running out {percent(after.oom_probability)}."
    )


def remedy_record(one: Remedy) -> dict[str, Any]:
    """Return a remedy for scripts."""
    return {
        "options": list(one.options),
        "saves_gib": one.saves / GIB,
        "peak_gib": one.answer.peak / GIB,
        "step_time_s": one.answer.step,
        "usd_per_step": one.answer.bill.usd_per_step,
        "oom_probability": one.answer.oom_probability,
        "fits": one.fits,
    }


def remedy_document(answer: Estimate) -> dict[str, Any]:
    """Return what would make a plan fit as JSON."""
    found = remedies(answer)
    return {
        "single": [remedy_record(one) for one in found.single],
        "enough": None if found.enough is None else remedy_record(found.enough),
    }
