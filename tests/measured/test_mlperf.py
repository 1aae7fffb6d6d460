"""Submissions to MLPerf Training: how they are stated, what fits, and the page that tells of them."""

from __future__ import annotations

import csv
import importlib.util
import re
import sys
from functools import cache
from types import ModuleType

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import shipped_values
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepare
from planner.calibrate.runs.table import Run, read_runs
from planner.calibrate.validate import Validation, validate
from tests.helpers import ROOT

TABLE = ROOT / "tests/measured/runs/mlperf.csv"
CELLS = re.compile(r"^\| v(.*) \|$", re.MULTILINE)


def runs() -> list[Run]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        return [row for row in read_runs(lines).rows if isinstance(row, Run)]


@cache
def priced() -> Validation:
    return validate(runs(), shipped_catalogue(), predictions_with(shipped_values()))


def test_runs_that_were_submitted_fit() -> None:
    """At most 3 of 109 may be called out of memory: all of them ran."""
    assert len(priced().outcomes) == 109
    assert sum(bool(outcome.scored.predicted_oom) for outcome in priced().outcomes) <= 3


def test_fine_tuning_stated_in_columns_is_priced_as_in_notes() -> None:
    """The same run: four columns, or the words of ``notes`` that older tables have."""
    price = predictions_with(shipped_values())
    tuned = [run for run in runs() if run.method == "lora"]
    for run in {run.framework: run for run in tuned}.values():
        words = (
            f"method=lora task=lora lora_rank={run.lora_rank} lora_targets={run.lora_targets}; "
            f"attention over the whole sequence; {run.notes}"
        )
        blank = {"method": "", "lora_rank": None, "lora_targets": "", "document_tokens": None}
        both = [
            prepare(one, shipped_catalogue()) for one in (run, run.with_values({**blank, "notes": words}))
        ]
        assert all(isinstance(one, PricedRun) for one in both), both
        columns, notes = price([one for one in both if isinstance(one, PricedRun)])
        assert isinstance(columns, Prediction)
        assert columns == notes, run.id


def test_documents_are_an_input_of_the_run_not_of_its_software() -> None:
    """Attention over 8,192 tokens costs more than over packed documents of 256, in the same release."""
    run = next(run for run in runs() if run.method == "lora" and run.num_gpus == 8)
    price = predictions_with(shipped_values())
    times = []
    for tokens in (256, 2048, 8192):
        one = prepare(run.with_values({"document_tokens": tokens}), shipped_catalogue())
        assert isinstance(one, PricedRun)
        (found,) = price([one])
        assert isinstance(found, Prediction)
        times.append(found.step_s)
    assert times == sorted(times)
    assert times[-1] > 1.05 * times[0]


@cache
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_mlperf", ROOT / "docs/make_mlperf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_timed_run_as_measured() -> None:
    text = (ROOT / "docs/mlperf.md").read_text(encoding="utf-8")
    shown = sorted(line.split(" | ")[5] for line in CELLS.findall(text))
    with TABLE.open(encoding="utf-8", newline="") as lines:
        measured = [float(row["step_time_s"]) for row in csv.DictReader(lines)]
    assert shown == sorted(f"{seconds:.4g}" for seconds in measured)


def test_a_line_of_the_page_is_the_price_of_the_layout_and_the_best_plan_of_its_job() -> None:
    (line,) = maker().lines_of(TABLE, limit=1)
    outcome = next(one for one in priced().outcomes if one.scored.id == line.run.run.id)
    assert line.found.step_s == outcome.scored.predicted_s
    cells = dict(zip(maker().COLUMNS, line.cells(), strict=True))
    assert cells["layout"] == "`tp4 pp8 vpp12 dp16 mb1 zero1 sp`"
    assert cells["measured s"] == "12.07"
    assert line.pick[1] <= line.found.step_s


def test_text_of_references_is_read() -> None:
    assert maker().submission("training_results_v5.0 AMD/results/x/y") == "v5.0 AMD"
    assert maker().release("NeMo 25.04 on ROCm (Transformer Engine)") == "25.04, ROCm"
