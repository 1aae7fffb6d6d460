"""What an earlier search found out changes no answer of a later one."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from planner.api import load_hardware, load_model
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search import priced
from planner.search.known import KNOWN, as_known
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from tests.searched_once import forget_all
from tests.searched_once import run as searched

JOBS = {
    "megatron-lm": ("llama2-7b", "dgx-a100-40gb", 8, 16),
    "torchtitan": ("llama2-7b", "dgx-h100", 16, 16),
}

PINNED = {"cp": 1, "micro_batch": 1, "tp": 2, "schedule": "1f1b"}

ASKED = [{}, {"objective": "memory"}, {"top": 2}, {"memory_limit": 35e9}, {"fixed": PINNED | {"zero": 1}}]


@pytest.fixture(autouse=True)
def _run_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no search be answered with another test's."""
    monkeypatch.setattr("planner.search.optimise._searched", searched)


def request(name: str, **asked: object) -> SearchRequest:
    model, cluster, gpus, batch = JOBS[name]
    work = Workload(seq_len=2048, global_batch=batch)
    known = (runtimes()[name],)
    made = SearchRequest(load_model(model), (load_hardware(cluster),), (gpus,), work, known, PINNED)
    return replace(made, **asked)


def told(found: SearchResult) -> list[object]:
    """Return all that a result says of plans; of a plan that is shown no variant is told again."""
    plans = [(one.plan, one.step, one.peak, one.error_band) for one in (*found.plans, *found.on_paper)]
    counts = [found.enumerated, found.valid, found.fits, found.priced, found.close, dict(found.removed)]
    ways = {name: value for name, value in found.optimality.items() if name != "solver"}
    return [plans, counts, ways, [(name, asdict(one.time)) for name, one in found.baselines]]


@pytest.mark.parametrize("name", JOBS)
def test_a_search_after_others_says_what_it_says_alone(name: str) -> None:
    alone = []
    for asked in ASKED:
        forget_all()
        alone.append(told(search(request(name, **asked))))
    forget_all()
    assert [told(search(request(name, **asked))) for asked in ASKED] == alone
    assert told(search(request(name))) == alone[0]
    assert len({id(job) for job in KNOWN}) == len(KNOWN)


def test_a_space_too_large_to_be_remembered_is_priced_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(search(request("megatron-lm")))
    forget_all()
    monkeypatch.setattr(priced, "MOST_ROWS", 100)
    for _ in range(2):
        assert told(search(request("megatron-lm"))) == whole
        assert all(made.left >= 0 for _, made in priced.RECENT)


def test_the_last_spaces_are_remembered_up_to_a_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "MOST_ROWS", 3000)
    for seq_len in (512, 1024, 2048, 4096):
        asked = request("megatron-lm")
        search(replace(asked, workload=Workload(seq_len=seq_len, global_batch=16)))
        kept = [priced.MOST_ROWS - made.left for _, made in priced.RECENT]
        assert sum(kept[:-1]) <= priced.MOST_ROWS
        assert all(rows <= priced.MOST_ROWS for rows in kept)


def test_another_model_cluster_or_batch_is_another_job() -> None:
    asked = request("megatron-lm")
    (job, runtime), (other, _) = (next(one.jobs()) for one in (asked, request("megatron-lm")))
    assert job is other
    changed = [
        replace(asked, model=load_model("llama3-8b")),
        replace(asked, clusters=(load_hardware("dgx-h100"),)),
        replace(asked, workload=Workload(seq_len=2048, global_batch=32)),
        replace(asked, gpu_counts=(16,)),
        replace(asked, runtimes=(runtimes()["deepspeed"],)),
    ]
    jobs = [job, *(next(one.jobs())[0] for one in changed)]
    assert len({id(one) for one in jobs}) == len(jobs)
    again = load_hardware("dgx-a100-40gb")
    kernels = again.pool.accelerator.kernels
    again.pool.accelerator.__dict__["kernels"] = replace(kernels, launch=kernels.launch * 2.0)
    assert as_known(replace(job, hardware=again), runtime)[0] is not job


def test_the_last_jobs_are_known() -> None:
    (job, runtime) = next(request("megatron-lm").jobs())
    for gpus in range(8, 8 + 40 * 8, 8):
        as_known(replace(job, gpus=gpus), runtime)
    counts = [known.job.gpus for known in KNOWN.values()]
    assert counts[-1] == 8 + 39 * 8
    assert all(one < other for one, other in pairwise(counts))
    assert len(counts) == 32
