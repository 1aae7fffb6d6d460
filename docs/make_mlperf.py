"""Write docs/mlperf.md: ``python docs/make_mlperf.py RUNS.csv``, a run table of MLPerf Training submissions.

Each run is priced as `planner validate` prices it, and beside it stands the plan that a search would have
chosen for the same job, on the same cluster, in the same software: two minutes for a hundred runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from planner.calibrate.constants import WithConstants, shipped_values
from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepared
from planner.calibrate.runs.table import read_runs
from planner.report.estimate_page import layout
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.units import percent

PAGE = Path(__file__).with_name("mlperf.md")

HEAD = """# MLPerf Training, predicted and measured

Every submission of the table `{table}`: GPT-3 175B pre-training, Llama 2 70B fine-tuned with LoRA, and
Llama 3.1 8B pre-training, rounds {rounds}. The layout is that of the submission's own configuration file,
the step time the median of its log without evaluation (<https://github.com/mlcommons>,
`training_results_v*`). Written by `python docs/make_mlperf.py {path}`.

- **predicted**: the price of the submitted layout, as `planner validate` gives it; **error**: predicted over
  measured, minus one; **band**: the share within which 90% of such runs should be, a dash where the
  software or the accelerator was never validated ([accuracy](accuracy.md#error-bands)).
- **search**: the plan that `planner search` would have chosen for the same batch, cluster and software, with
  at most a chance of 5% to run out of memory, and **its s** its predicted step; `the same` where it is the
  submitted layout. What a submitter could not run, or found to converge worse, it does not know.
- Some of these runs, among those of other sources, are behind the rates of H100 and B200; those of NeMo's
  releases 23.04, 23.09, and 24.04 with 24.09, rest on them alone. None belongs to a benchmark or a submitter.
"""

Picked = tuple[str, float]
"""A plan in short, and its predicted step. [s]"""


@dataclass(frozen=True)
class Line:
    """One submission.

    Parameters
    ----------
    run : PricedRun
        What ran.
    found : Prediction
        The price of its layout.
    pick : (str, float), optional
        What the search would have run, and its predicted step; None where nothing fits. [-], [s]
    """

    run: PricedRun
    found: Prediction
    pick: Picked | None

    @property
    def error(self) -> float:
        """Predicted over measured step, minus one. [-]"""
        return self.found.step_s / (self.run.measured.seconds or float("nan")) - 1

    def cells(self) -> tuple[str, ...]:
        """Return the line of the table."""
        run, own = self.run.run, layout(self.run.plan)
        chosen, seconds = self.pick or ("none fits", float("nan"))
        band = self.found.error_band
        return (
            submission(run.ref), release(run.framework), str(run.num_gpus), str(run.global_batch), f"`{own}`",
            f"{self.run.measured.seconds:.4g}", f"{self.found.step_s:.4g}", percent(self.error, signed=True),
            "-" if band is None else percent(band), "the same" if chosen == own else f"`{chosen}`",
            f"{seconds:.4g}",
        )  # fmt: skip


COLUMNS = (
    "submission", "NeMo", "GPUs", "batch", "layout", "measured s", "predicted s", "error", "band", "search",
    "its s",
)  # fmt: skip


def submission(ref: str) -> str:
    """Return round and submitter from where a run stands in the results.

    >>> submission("training_results_v5.0 AMD/results/MI300X_EPYC_9575F_pytorch/llama2_70b_lora")
    'v5.0 AMD'
    """
    found = re.match(r"training_results_(v[\d.]+) ([^/]+)/", ref)
    return f"{found[1]} {found[2]}" if found else ref


def release(framework: str) -> str:
    """Return the release in a framework's text.

    >>> release("NeMo 25.04 on ROCm (Transformer Engine for ROCm)")
    '25.04, ROCm'
    """
    found = re.search(r"\d\d\.\d\d", framework)
    return (found[0] if found else framework) + (", ROCm" if "ROCm" in framework else "")


def lines_of(path: Path, limit: int | None = None) -> list[Line]:
    """Return the timed runs of a table, priced and searched; at most the first ``limit`` of them."""
    skipped: list[Skip] = []
    with path.open(encoding="utf-8", newline="") as stream:
        ready = prepared(list(read_runs(stream, path.name).rows), shipped_catalogue(), skipped)
    for skip in skipped:
        sys.stderr.write(f"left out: {skip.id}: {skip.reason}\n")
    runs = WithConstants(shipped_values())([run for run in ready if run.measured.seconds][:limit])
    return list(_lines(runs, cost_predictions(runs)))


def _lines(runs: Sequence[PricedRun], found: Sequence[Prediction | Skip]) -> Iterator[Line]:
    picks: dict[Hashable, Picked | None] = {}
    for run, prediction in zip(runs, found, strict=True):
        if isinstance(prediction, Skip):
            sys.stderr.write(f"left out: {prediction.id}: {prediction.reason}\n")
            continue
        job = run.job
        key = (id(job.hardware), id(job.model), job.gpus, job.workload, id(run.runtime))
        if key not in picks:
            picks[key] = pick_of(run)
        yield Line(run, prediction, picks[key])


def pick_of(run: PricedRun) -> Picked | None:
    """Return the fastest plan that a search finds for a run's job, in its software as it was."""
    job = run.job
    answer = search(
        SearchRequest(
            job.model, (job.hardware,), (job.gpus,), job.workload, (run.runtime,), top=1, uniform=True
        )
    )
    best = answer.plans[0] if answer.plans else None
    return None if best is None else (layout(best.plan), best.step)


def page(lines: Sequence[Line], path: Path) -> str:
    """Return the page."""
    rounds = sorted({submission(line.run.run.ref).partition(" ")[0] for line in lines})
    head = HEAD.format(table=path.name, path=path, rounds=f"{rounds[0]} to {rounds[-1]}")
    parts = [head, "## Summary\n", _table(SUMMARY, _summary(lines))]
    for (model, gpu), members in _groups(lines, lambda line: (line.run.run.model, line.run.run.gpu)):
        parts += [f"## {model} on {gpu}\n", _table(COLUMNS, (line.cells() for line in members))]
    return "\n".join(parts)


SUMMARY = ("benchmark", "accelerator", "runs", "error", "median", "bias", "in the band", "search over layout")


def _summary(lines: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    for (model, gpu), members in _groups(lines, lambda line: (line.run.run.model, line.run.run.gpu)):
        errors = [m.error for m in members]
        sizes = [abs(error) for error in errors]
        banded = [m for m in members if m.found.error_band is not None]
        held = sum(abs(m.error) <= (m.found.error_band or 0) for m in banded)
        gains = [m.pick[1] / m.found.step_s for m in members if m.pick]
        yield (
            model, gpu, str(len(members)), percent(fmean(sizes)), percent(median(sizes)),
            percent(fmean(errors), signed=True), f"{held} of {len(banded)}" if banded else "-",
            f"{sum(gains) / len(gains):.2f}" if gains else "-",
        )  # fmt: skip


def _groups(
    lines: Iterable[Line], key: Callable[[Line], tuple[str, str]]
) -> list[tuple[tuple[str, str], list[Line]]]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return sorted(groups.items())


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    every = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in every)


def main() -> int:
    """Write the page of a table."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python docs/make_mlperf.py RUNS.csv\n")
        return 2
    path = Path(sys.argv[1])
    PAGE.write_text(page(lines_of(path), path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
