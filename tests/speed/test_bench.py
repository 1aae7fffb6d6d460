"""The scan stays orders of magnitude faster than single estimates, and gives the same bits."""

from __future__ import annotations

from planner.inputs.workload import Workload
from planner.search.request import SearchRequest
from tests.speed.bench import (
    differing_bits,
    priced_in_columns,
    timed_loop,
)
from tests.unit.cost_jobs import MODELS, cluster, runtime


def test_columns_are_a_hundred_times_faster_than_single_estimates() -> None:
    """Relative, so that the machine does not matter; `make bench` prints the real figures of GPT-3 175B."""
    work = Workload(seq_len=2048, global_batch=256)
    request = SearchRequest(MODELS["dense"], (cluster("dgx-h100"),), (64,), work, (runtime(),))
    columns = min((priced_in_columns(request) for _ in range(2)), key=lambda scan: scan.elapsed)
    job, _ = next(request.jobs())
    assert columns.report.valid > 10_000
    assert columns.report.valid * timed_loop(columns.scan, job).price > 100 * columns.elapsed
    assert differing_bits(columns, job) == 0
