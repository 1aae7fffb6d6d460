"""What would fit, where nothing does: more accelerators, or one change of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, product
from typing import Any, Final

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.legal import all_rules
from planner.dataclasses import asdict, replace
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.search.assign.plan_costs import is_assignable
from planner.search.assign.problem import NoAssignment
from planner.search.assign.uneven import missing_memory, missing_record
from planner.search.candidates import ScanReport
from planner.search.fits import fits_any
from planner.search.legality import named, plan_rows
from planner.search.request import SearchRequest, scan_of
from planner.search.scan import Scan
from planner.units import GIB

MOST_SPLIT = 16
"""Candidates asked what they need with the best split of their layers."""

MOST_ASKED = 64
"""Combinations of techniques, and of degrees, that are asked which rules they break."""

MOST_CHUNKS = 8
"""Chunks of each scan in which a plan is looked for after a change."""

MOST_DOUBLINGS = 7
"""How often the number of accelerators is doubled before giving up."""


def nearest_that_fits(
    request: SearchRequest, scans: Sequence[Scan], reports: Sequence[ScanReport]
) -> Mapping[str, object]:
    """Return the plan that misses least, how much is missing, how many accelerators would do, and changes.

    Parameters
    ----------
    request : SearchRequest
        The request that nothing satisfies.
    scans, reports : sequence
        Its scans and what each saw.

    Returns
    -------
    mapping
        ``cluster``, ``runtime``, ``plan`` and ``peak_gib`` of the plan that misses the least memory,
        ``missing_gib``, ``gpus`` of its cluster that would do, ``changes``, each a single change after which
        something fits, or adapters on more accelerators of a node where none does, ``remedies``: these and
        more accelerators, each with a plan that fits then, its memory and its price, ``split``: where the
        plan that misses least fails with every split of its layers, what there is and what it needs, and
        ``breaks``: where no plan obeys all rules, what the one that breaks the fewest breaks.
    """
    legal = [
        (report.smallest.total_bytes - scan.capacity, scan, report.smallest)
        for scan, report in zip(scans, reports, strict=True)
        if report.smallest is not None
    ]
    _, closest, smallest = min(legal, key=lambda missed: missed[0], default=(0.0, scans[0], None))
    job, who = closest.job, (closest.runtime.name, closest.runtime.release)
    runtime = next(one for _, one in request.jobs() if (one.name, one.release) == who)
    plan = _smallest(smallest.plan, closest, runtime, request.memory_limit) if smallest is not None else None
    wanted = _changes(request) if legal else chain(_permitted(request), _changes(request))
    fitting = [(text, changed) for text, changed in wanted if _fits(changed)]
    enough = _enough(request, job, runtime)
    grown = list(islice((one for one in _more_accelerators(request, job, enough) if _fits(one[1])), 1))
    if not fitting and not grown:
        fitting = list(_two_changes(request))
    return {
        "cluster": job.hardware.name,
        "runtime": runtime.name,
        "plan": plan.plan.as_dict() if plan is not None else None,
        "peak_gib": plan.peak / GIB if plan is not None else None,
        "missing_gib": (plan.peak - plan.capacity) / GIB if plan is not None else None,
        "gpus": enough,
        "changes": [text for text, _ in fitting],
        "remedies": [
            _remedy(text, changed, plan.peak if plan is not None else None)
            for text, changed in (*grown, *fitting)
        ],
        "split": _split(request, job, runtime, reports),
        "breaks": None if legal else fewest_broken(request, job, runtime),
    }


def _smallest(plan: Plan, scan: Scan, usual: Runtime, limit: float | None) -> Estimate:
    """Return the smallest plan of a scan, with the settings of the scan or the usual ones."""
    known = [estimate(plan, scan.job, runtime, limit) for runtime in (scan.runtime, usual)]
    return min((one for one in known if not one.violations), key=lambda one: one.peak, default=known[0])


def fewest_broken(request: SearchRequest, job: Job, runtime: Runtime) -> dict[str, object] | None:
    """Return the plan that breaks the fewest rules and what it breaks, None where no degrees divide.

    Up to `MOST_ASKED` combinations of techniques are asked, each with as many degrees.
    """
    scan = scan_of(request, job, runtime, keep=1)
    known = scan.space.nearly or scan.space.rows
    size = len(np.atleast_1d(known.tp))
    if not size:
        return None
    rows = plan_rows(known, np.unique(np.linspace(0, size - 1, MOST_ASKED).astype(np.intp)))
    found: list[tuple[int, Plan]] = []
    for passes, states in islice(product(scan.choices.passes(), scan.choices.states()), MOST_ASKED):
        plan = named(rows, passes, states, scan.shards)
        rules = all_rules(plan, case_of(plan, job, runtime))
        broken = sum(~np.broadcast_to(rule.holds, np.shape(plan.tp)) for rule in rules)
        least = int(np.argmin(broken))
        found.append((int(np.asarray(broken)[least]), plan.row((least,))))
    plan = min(found, key=lambda pair: pair[0])[1]
    told = violations(all_rules(plan, case_of(plan, job, runtime)))
    never = runtime.cannot_train(job)
    able = [
        name
        for name, one in runtimes().items()
        if never and job.workload.method in one.methods and not one.cannot_train(job)
    ]
    faults = [asdict(violation) for violation in told]
    answer: dict[str, object] = {
        "plan": plan.slug,
        "rules": faults,
        "title": runtime.title,
        "model": never,
        "able": able,
    }
    if never and not able and job.model.encoder and not job.model.crosses:
        answer["able_alone"] = _without_encoder(job)
    return answer


def _without_encoder(job: Job) -> list[str]:
    """Return the runtimes that train the language model alone."""
    alone = replace(job, model=job.model.model_copy(update={"encoder": None}))
    known = [name for name, one in runtimes().items() if job.workload.method in one.methods]
    return [name for name in known if not runtimes()[name].cannot_train(alone)]


def _split(
    request: SearchRequest, job: Job, runtime: Runtime, reports: Sequence[ScanReport]
) -> dict[str, object] | None:
    """Return what the plan that misses least needs at least, of those whose layers can be assigned."""
    if request.uniform or request.fixed.get("stage_layers") is not None or len(reports) > 1:
        return None
    limit = scan_of(request, job, runtime, keep=1).limit
    smallest = [report.smallest for report in reports if report.smallest is not None]
    candidates = [
        *smallest,
        *(candidate for report in reports for candidate in report.of("uneven")[:MOST_SPLIT]),
    ]
    missed: list[tuple[Plan, NoAssignment]] = []
    for plan in dict.fromkeys(candidate.plan for candidate in candidates):
        if is_assignable(plan, case_of(plan, job, runtime)):
            missing = missing_memory(plan, job, runtime, limit)
            missed += [(plan, missing)] if missing is not None else []
    if not missed:
        return None
    plan, least = min(missed, key=lambda pair: pair[1].needed)
    return {"plan": plan.slug} | missing_record(least)


def _fits(request: SearchRequest) -> bool:
    return any(fits_any(scan_of(request, job, runtime, keep=1)) for job, runtime in request.jobs())


def _more_accelerators(
    request: SearchRequest, job: Job, enough: int | None
) -> Iterator[tuple[str, SearchRequest]]:
    """Yield the request for the cluster of a job, with as many as are ``enough``, or one node more."""
    pool = job.hardware.pool
    node_more = (max(request.gpu_counts) // pool.gpus_per_node + 1) * pool.gpus_per_node
    counts = {enough, node_more if pool.network is not None else None}
    where = f" --hardware {job.hardware.name}" if len(request.clusters) > 1 else ""
    for gpus in sorted(filter(None, counts)):
        yield f"--gpus {gpus}{where}", replace(request, gpu_counts=(gpus,), clusters=(job.hardware,))


def _remedy(text: str, request: SearchRequest, peak: float | None) -> dict[str, object]:
    """Return a change with the fastest plan among the first that are priced, its memory and its price.

    The first `MOST_CHUNKS` chunks of each scan are priced, more until one fits, so that a search may find a
    faster one.
    """
    found: list[Estimate] = []
    for job, runtime in request.jobs():
        report, scan = ScanReport(), scan_of(request, job, runtime, keep=1)
        for chunk, _ in enumerate(scan.steps(lambda result: np.asarray(result.step), report), 1):
            if chunk >= MOST_CHUNKS and report.best:
                break
        if report.best:
            found.append(estimate(report.best[0].plan, job, runtime, request.memory_limit))
    best = min(found, key=lambda one: one.step, default=None)
    if best is None:
        return {"change": text, "plan": None}
    return {
        "change": text,
        "plan": best.plan.slug,
        "peak_gib": best.peak / GIB,
        "saves_gib": None if peak is None else (peak - best.peak) / GIB,
        "step_time_s": best.step,
        "usd_per_step": best.bill.usd_per_step,
    }


def _enough(request: SearchRequest, job: Job, runtime: Runtime) -> int | None:
    """Return the fewest accelerators, by doubling, with which something fits."""
    gpus = max(request.gpu_counts)
    for _ in range(MOST_DOUBLINGS):
        gpus *= 2
        if request.workload.global_batch * job.hardware.pool.gpus_per_node < gpus:
            return None
        if _fits(replace(request, gpu_counts=(gpus,), runtimes=(runtime,), clusters=(job.hardware,))):
            return gpus
    return None


BFLOAT16: Final = {"master_dtype": "bf16", "gradient_dtype": "bf16"}
BFLOAT16_SAID: Final = "--master-dtype bf16 --gradient-dtype bf16"
"""Weights and gradients that rest in bfloat16 alone, where a runtime can say so, and how to ask for it."""


def _changes(request: SearchRequest) -> Iterator[tuple[str, SearchRequest]]:
    """Yield single changes that save memory, each with the request changed so."""
    work = request.workload

    def with_work(**fields: Any) -> SearchRequest:
        return replace(request, workload=work.model_copy(update=fields))

    for name, value in request.fixed.items():
        free = {key: kept for key, kept in request.fixed.items() if key != name}
        yield f"leave --{name.replace('_', '-')} {value} to the search", replace(request, fixed=free)
    eight = with_work(optimizer="adam8bit", **BFLOAT16)
    if work.method == "full" and not work.reduces_states:
        yield f"{BFLOAT16_SAID} --state-dtype bf16", with_work(**BFLOAT16, state_dtype="bf16")
        yield f"--optimizer adam8bit {BFLOAT16_SAID}", eight
    if work.optimizer != "adam8bit":
        yield "--optimizer adam8bit", with_work(optimizer="adam8bit")
    if work.method == "full":
        yield from _tuned(with_work(method="lora"))
    if work.method != "qlora":
        yield from _tuned(with_work(method="qlora"))
    if work.seq_len >= 2048:
        yield f"--seq-len {work.seq_len // 2}", with_work(seq_len=work.seq_len // 2)


def _permitted(request: SearchRequest) -> Iterator[tuple[str, SearchRequest]]:
    """Yield single changes of what rules may refuse whatever the layout: the runtime, named techniques."""
    asked = {runtime.name for runtime in request.runtimes}
    for name, runtime in runtimes().items():
        if name not in asked:
            yield f"--runtime {name}", replace(request, runtimes=(runtime,))
    for field in ("optimizer", "precision", "method"):
        usual = type(request.workload).model_fields[field].default
        if getattr(request.workload, field) != usual:
            work = request.workload.model_copy(update={field: usual})
            yield f"--{field} {usual}", replace(request, workload=work)


def _two_changes(request: SearchRequest) -> Iterator[tuple[str, SearchRequest]]:
    """Yield adapters of each method on the fewest accelerators of a node, by doubling, that hold them."""
    work, pool = request.workload, next(request.jobs())[0].hardware.pool
    for method in ("lora", "qlora"):
        if work.method == method:
            continue
        for text, tuned in _tuned(replace(request, workload=work.model_copy(update={"method": method}))):
            counts = [max(request.gpu_counts) * 2**power for power in range(1, MOST_DOUBLINGS + 1)]
            several = (replace(tuned, gpu_counts=(count,)) for count in counts if count <= pool.gpus_per_node)
            found = next((changed for changed in several if _remedy("", changed, None)["plan"]), None)
            if found is not None:
                yield f"{text} --gpus {found.gpu_counts[0]}", found


def _tuned(request: SearchRequest) -> Iterator[tuple[str, SearchRequest]]:
    """Yield a request for adapters, on runtimes that train them where those asked for do not."""
    method = request.workload.method
    if any(method in runtime.methods for runtime in request.runtimes) or _fits(request):
        yield f"--method {method}", request
        return
    able = tuple(runtime for runtime in runtimes().values() if method in runtime.methods)
    if able:
        yield (
            " ".join([f"--method {method}", *(f"--runtime {one.name}" for one in able)]),
            replace(request, runtimes=able),
        )
