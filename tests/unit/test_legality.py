"""Which rows of a space are legal, cell by cell."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from planner.plan import Plan
from planner.search.legality import Choices, Legality
from tests.cases import every
from tests.unit.cost_jobs import any_runtime, job


@every("first", [(8.0, 2.0), (2.0, 8.0)])
def test_the_first_row_is_judged_by_its_own_micro_batches(first: tuple[float, float]) -> None:
    """DualPipeV needs two micro-batches for each of two ranks, wherever in the space a row stands."""
    passes = np.array(first)
    work = job(gpus=2, global_batch=8)
    columns = {
        name: np.array([value, value])
        for name, value in (("tp", 1.0), ("pp", 2.0), ("vpp", 2.0), ("dp", 1.0), ("cp", 1.0), ("ep", 1.0))
    }
    rows = Plan(**columns, etp=np.ones(2), micro_batch=8 / passes, num_microbatches=passes)  # type: ignore[arg-type]
    choices = Choices((0,), ("none",), (False,), ("ring",), ("dualpipe-v",), ("none",))
    runner = replace(any_runtime(), schedules=("dualpipe-v",))
    removed: Counter[str] = Counter()
    legal = Legality(rows, work, runner, choices).rows_of(choices.passes()[0], removed)
    assert legal.rows.tolist() == [first.index(8.0)]
    assert removed.total() == 1
