"""One recipe on trial: what the planner says of the published layout, and what its search offers instead."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from planner.calibrate.runs.defaults import PricedRun
from planner.cost.estimate import Estimate
from planner.cost.kinds import kinds_of, unmeasured_kinds
from planner.cost.price import Unpriced, price
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.units import GIB
from tests.helpers import ROOT

TRIALS: Final = ROOT / "tests" / "published_jobs" / "trials.csv"
TOLD: Final = 0.02
"""Share of the published price from which the difference of a term is told. [-]"""
SHOWN: Final = 5
"""Plans that are searched for each job. [-]"""


@dataclass(frozen=True)
class Trial:
    """What is kept of one recipe; blank where there is none.

    ``refused`` is the runner's reason against the published layout, ``place`` that of its price among the
    plans of the search, ``terms`` what the search's best changes, and ``unproven`` the kinds of plan among
    that which no measured run has.
    """

    id: str
    table: str
    model: str
    gpu: str
    gpus: int
    precision: str
    seq_len: int
    global_batch: int
    runtime: str
    release: str
    ran_out: bool
    measured_s: float
    priced_s: float
    band: float
    gib: float
    has_gib: float
    oom_risk: float
    refused: str
    layout: str
    kinds: str
    place: str
    best_s: float
    best_gib: float
    best_layout: str
    terms: str
    unproven: str

    @property
    def error(self) -> float:
        """Logarithm-free error of the published layout's price; 0 where either time is missing. [-]"""
        return self.priced_s / self.measured_s - 1.0 if self.measured_s and self.priced_s else 0.0

    @property
    def gain(self) -> float:
        """How much less the search's best takes than the published layout, both priced. [-]"""
        return 1.0 - self.best_s / self.priced_s if self.best_s and self.priced_s else 0.0

    @property
    def out_of_memory(self) -> bool:
        """Whether the published layout is called out of memory."""
        return self.gib > self.has_gib

    @property
    def stands(self) -> bool:
        """Whether the published layout may be an answer of the search: legal, and its risk accepted."""
        return not self.refused and self.oom_risk <= RISK


RISK: Final = 0.05
"""Risk of running out of memory that a search accepts. [-]"""


def job_key(run: PricedRun) -> tuple[object, ...]:
    """What runs of one search have in common."""
    job = run.job
    return (id(job.model), id(job.hardware), job.gpus, job.workload, id(run.runtime))


def searched(run: PricedRun) -> SearchResult:
    """Search under the constraints of a recipe: its machine, its batch, its release and settings."""
    job = run.job
    request = SearchRequest(
        job.model, (job.hardware,), (job.gpus,), job.workload, (run.runtime,), top=SHOWN, oom_risk=RISK
    )
    return search_counts(request, advise=False, beside=False)


def short(plan: Estimate | Unpriced) -> str:
    """Return a plan in short words."""
    own = plan.plan
    degrees = [f"{name}{getattr(own, name):g}" for name in ("tp", "pp", "vpp", "cp", "ep", "etp")]
    words = [word for word in degrees if not word.endswith(("p1", "x1")) or word[-2:].isdigit()]
    words += [f"dp{own.dp:g}", f"mb{own.micro_batch:g}", f"zero{own.zero}"]
    words += ["sp"] * own.sequence_parallel
    words += [own.recompute] * (own.recompute != "none") + [own.offload] * (own.offload != "none")
    return " ".join(words)


def trial_of(table: str, run: PricedRun, found: SearchResult) -> Trial:
    """Return what is kept of a recipe and the search of its job."""
    published = price(run.plan, run.job, run.runtime)
    priced = isinstance(published, Estimate)
    best = found.plans[0] if found.plans else None
    steps = [plan.step for plan in found.plans]
    step = published.step if isinstance(published, Estimate) else 0.0
    place = 1 + sum(one < step * (1 - 1e-9) for one in steps)
    own = set(kinds_of(run.plan, run.job))
    return Trial(
        id=run.run.id,
        table=table,
        model=run.job.model.name,
        gpu=run.job.hardware.pool.accelerator.name,
        gpus=run.job.gpus,
        precision=run.job.workload.precision,
        seq_len=run.job.workload.seq_len,
        global_batch=run.job.workload.global_batch,
        runtime=run.runtime.name,
        release=run.release,
        ran_out=bool(run.run.oom),
        measured_s=run.measured.seconds or 0.0,
        priced_s=step,
        band=(published.error_band or 0.0) if isinstance(published, Estimate) else 0.0,
        gib=published.peak / GIB if isinstance(published, Estimate) else 0.0,
        has_gib=published.capacity / GIB,
        oom_risk=published.oom_probability if isinstance(published, Estimate) else 0.0,
        refused="; ".join(f"{fault.rule}: {fault.found}" for fault in published.violations),
        layout=short(published),
        kinds=", ".join(sorted(own)),
        place="" if not (priced and steps) else f"{place}" if place <= SHOWN else f">{SHOWN}",
        best_s=best.step if best else 0.0,
        best_gib=best.peak / GIB if best else 0.0,
        best_layout=short(best) if best else "",
        terms=_terms(published, best) if best and isinstance(published, Estimate) else "",
        unproven=", ".join(
            one for one in unmeasured_kinds(best.plan, best.job, best.runtime) if one not in own
        )
        if best
        else "",
    )


def _terms(published: Estimate, best: Estimate) -> str:
    """Return the terms in which two plans differ by some percent of the first's step."""
    was, now = asdict(published.time), asdict(best.time)
    changed = {name: (now[name] - was[name]) / published.step for name in was}
    return ", ".join(
        f"{name.replace('_comm', '')} {change:+.0%}"
        for name, change in changed.items()
        if abs(change) >= TOLD
    )


def read_trials(path: Path = TRIALS) -> list[Trial]:
    """Return the trials of a file."""
    kinds: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": lambda text: text == "True"}
    readers = {field.name: kinds[str(field.type)] for field in fields(Trial)}
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Trial(**{name: readers[name](text) for name, text in row.items()})
            for row in csv.DictReader(lines)
        ]


def write_trials(trials: Iterable[Trial], path: Path = TRIALS) -> None:
    """Write trials, figures to five digits."""
    with path.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, [field.name for field in fields(Trial)], lineterminator="\n")
        table.writeheader()
        for trial in trials:
            table.writerow({name: _rounded(value) for name, value in asdict(trial).items()})


def _rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
