"""Training over several sites for people and for scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from planner.calibrate.releases import title_of
from planner.cost.sites.chain import stage_sites
from planner.formulas.failures import job_mtbf_seconds
from planner.formulas.learning_laws import inner_steps_perplexity
from planner.inputs.sites import Site
from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, counted, short_defaults, significant
from planner.report.search_page import nothing_fits
from planner.report.sites_columns import REFUSED, UNRANKED, ways_view
from planner.report.sites_learning import batch_lines, best_batch, costs, twice
from planner.report.view import Column, View
from planner.search.sites.rank import twice_the_replicas
from planner.search.sites.request import SitesRequest
from planner.search.sites.ways import Ranked, SitesResult
from planner.techniques.sync import AXES
from planner.techniques.sync.family import best_batch_tokens
from planner.units import DAY

SITES: Final = "planner/sites/1"
BITS: Final = 8.0
GIGA: Final = 1e9

NAMED: Final = 4
"""Methods without a runner that a page names. [-]"""
SHOWN: Final = 6
"""Ways of one kind that a page shows. [-]"""


def gbits(rate: float) -> float:
    """Return a rate in the unit of network links. [Gbit/s]

    Examples
    --------
    >>> gbits(1.25e9)
    10.0
    """
    return rate * BITS / GIGA


def sites_page(
    result: SitesResult, request: SitesRequest, defaults: Mapping[str, Any], verbose: bool = False
) -> Page:
    """Return a search over sites for people."""
    if not result.ranked:
        return [_head(request), *_nothing(result), *_others(result, verbose), *short_defaults(defaults)]
    page: Page = [_head(request), _ways(result.ranked).table()]
    if len({one.price.way.sync.name for one in result.ranked}) == 1 and len(result.by_steps) > 1:
        page.append(_ways(_some(result.by_steps, verbose), "by inner steps").table())
    lead = result.ranked[0]
    lines = [
        _inside(lead, request),
        _links(lead),
        *costs(result, request, verbose),
        *_crossovers(result.ranked if verbose else result.ranked[:1]),
        *batch_lines(result, request, lead),
        *(best_batch(request) if verbose else ()),
        *(twice(result, request, lead) if verbose else ()),
        *_unfit(result),
        *_failures(request),
    ]
    others = _others(result, verbose)
    words = [one for one in others if isinstance(one, str)]
    page.append("\n".join([*lines, *words]))
    return [*page, *(one for one in others if not isinstance(one, str)), *short_defaults(defaults)]


def _ways(ways: tuple[Ranked, ...], head: str = "method", more: tuple[Column, ...] = ()) -> View:
    return ways_view(map(way_document, ways), head, more)


def _some(ways: tuple[Ranked, ...], verbose: bool) -> tuple[Ranked, ...]:
    """Return a few of many, the first and the last among them."""
    if verbose or len(ways) <= SHOWN:
        return ways
    places = sorted({round(place * (len(ways) - 1) / (SHOWN - 1)) for place in range(SHOWN)})
    return tuple(ways[place] for place in places)


def _head(request: SitesRequest) -> str:
    profile, work = request.profile, request.whole_workload
    where = ", ".join(f"{one.gpus} at {one.name}" for one in profile.sites)
    return (
        f"{request.model.name} ({request.model.params / 1e9:.3g} B) on {profile.gpus:,} accelerators "
        f"({where}; {profile.name}), {title_of(request.runtime)}; {counted(profile.replicas, 'replica')}, "
        f"an inner step of {counted(work.global_batch, 'sequence')} of {work.seq_len:,} tokens, "
        f"{work.precision}"
    )


def _inside(lead: Ranked, request: SitesRequest) -> str:
    """Say what crosses sites, the plan at each or of all, and who waits for whom."""
    head = f"Across sites: {AXES[lead.sync.axis]}."
    if lead.steps:
        return f"{head} {_one_job(lead, request)}"
    layouts = {name: f"{layout(one.plan)}, {significant(one.step, 3)} s" for name, one in lead.plans.items()}
    if len(set(layouts.values())) == 1:
        said = f"{head} Inside each site: {next(iter(layouts.values()))} a step alone."
    else:
        said = f"{head} Inside: " + "; ".join(f"{name} {text}" for name, text in layouts.items()) + "."
        slowest = max(lead.plans, key=lambda name: lead.plans[name].step)
        apart = lead.plans[slowest].step > 1.01 * min(one.step for one in lead.plans.values())
        said += f" All wait for {slowest}." if lead.sync.waits and apart else ""
    if request.batches:
        said += (
            f" Sequences of a replica: {', '.join(f'{n} at {name}' for name, n in request.batches.items())}."
        )
    kept = lead.price.device_bytes / 2**30
    host = lead.price.host_bytes / 2**30
    freed = f" {lead.sync.name} frees {-kept:.1f} GiB of an accelerator" if kept < 0 else ""
    most = max(
        one.peak - request.clusters[name].pool.accelerator.memory_usable for name, one in lead.plans.items()
    )
    freed += f", {most / 2**30:.1f} of which the plan takes." if freed and most > 0 else "." if freed else ""
    extra = [f"{kept:.1f} GiB of an accelerator"] if kept > 0 else []
    extra += [f"{host:.1f} GiB of host memory for each"] if host else []
    return said + freed + (f" {lead.sync.name} keeps {' and '.join(extra)} beside that." if extra else "")


def _one_job(lead: Ranked, request: SitesRequest) -> str:
    """Say the plan of one job over the sites, and which stages lie at which."""
    known = next(iter(lead.plans.values()))
    said = f"One job over all: {layout(known.plan)}"
    if known.runtime.traits.pipeline.stages_inside:
        said += "; each pipeline lies in one site (rank_order stages-inside)"
    elif known.plan.pp > 1:
        homes = stage_sites(request.profile, int(known.plan.pp))
        spans = ((name, homes.index(name), homes.count(name)) for name in dict.fromkeys(homes))
        told = (
            f"{first} to {first + n - 1} at {name}" if n > 1 else f"{first} at {name}"
            for name, first, n in spans
        )
        said += f"; stages {', '.join(told)}"
        split = known.plan.stage_layers
        said += f"; layers {', '.join(map(str, split))}" if split is not None and len(set(split)) > 1 else ""
    fast = significant(lead.price.compute, 3)
    return f"{said}. A step inside one site would take {fast} s."


def _links(lead: Ranked) -> str:
    """Say what the first way sends over each link."""
    price = lead.price
    told = [
        f"{'-'.join(pair)} {significant(gbits(price.mean[pair]), 3)} Gb/s on average, "
        f"{significant(gbits(price.peak[pair]), 3)} at peak"
        for pair in price.peak
    ]
    seconds = " and ".join(significant(time, 3) for time in price.exchanges)
    what = "The messages of a micro-batch take" if lead.sync.axis == "stages" else "An exchange takes"
    return f"{what} {seconds} s alone: {'; '.join(told)}."


def _crossovers(ways: tuple[Ranked, ...]) -> list[str]:
    """Say below which rate of the narrowest link each way is ahead of exact data parallelism."""
    told = [f"{one.sync.name} {_ahead(one.crossover)}" for one in ways if one.crossover is not None]
    unknown = any(one.compute is None for one in ways)
    speed = " (in speed alone where the cost in learning is unknown)" if unknown else ""
    return [f"Ahead of ddp by the narrowest link's rate: {', '.join(told)}{speed}."] if told else []


def _ahead(crossover: float) -> str:
    if crossover == 0.0:
        return "never"
    return "always" if math.isinf(crossover) else f"below {significant(gbits(crossover), 3)} Gb/s"


def _unfit(result: SitesResult) -> list[str]:
    return [f"No plan has room for {', '.join(result.unfit)}."] if result.unfit else []


def _nothing(result: SitesResult) -> Page:
    """Say why no way is left: that of the site where no plan fits."""
    if result.failed is None:
        return []
    most = sorted(result.failed.removed.items(), key=lambda one: -one[1])[:5]
    counts = ", ".join(f"{rule} {count:,}" for rule, count in most)
    removed = [f"Plans removed, by rule: {counts}."] if counts else []
    return ["No way is left: inside a site no plan is.", *nothing_fits(result.failed), *removed]


def _others(result: SitesResult, verbose: bool = False) -> Page:
    """Name the ways that nobody runs; with their figures where all is told."""
    if not result.others:
        return []
    if verbose:
        return [_ways(result.others, UNRANKED, (REFUSED,)).table()]
    reasons: dict[str, list[str]] = {}
    for one in result.others:
        reasons.setdefault("; ".join(one.refused), []).append(one.sync.name)
    if list(reasons) == ["no runner known"]:
        return [f"Not ranked, no runner known: {_named(reasons['no runner known'])}. See -v."]
    told = "; ".join(f"{_named(names)} ({why.replace('; ', ', ')})" for why, names in reasons.items())
    ask = "" if result.ranked else " --sync all ranks them all the same."
    return [f"Not ranked: {told}. See -v.{ask}"]


def _named(names: list[str]) -> str:
    """Return the first of many names."""
    more = len(names) - NAMED
    return ", ".join(names) if more < 2 else f"{', '.join(names[:NAMED])} and {more} more"


def _failures(request: SitesRequest) -> list[str]:
    """Say how often sites fail, where their file tells."""
    known = {one.name: failures_per_day(one) for one in request.profile.sites}
    told = [f"{name} {significant(often, 3)}" for name, often in known.items() if often is not None]
    return [f"Failures a day, not counted in days: {', '.join(told)}."] if told else []


def way_document(one: Ranked) -> Document:
    """Return one way as JSON."""
    price, timing = one.price, one.price.timing
    crossover = one.crossover
    unbounded = crossover is not None and math.isinf(crossover)
    document: Document = plain(
        {
            "sync": one.sync.name,
            "across": one.sync.axis,
            "inner_steps": price.way.steps if one.sync.inner else None,
            "fragments": timing.fragments,
            "delay_steps": timing.delay,
            "compress": price.way.packed.text,
            "runner": [] if one.refused else list(one.sync.runners),
            "refused": list(one.refused),
            "exact": one.exact,
            "sends": one.sync.sends,
            "hidden_behind": one.sync.hidden,
            "step_time_s": price.step,
            "inner_step_s": price.compute,
            "exchange_s": list(price.exchanges),
            "period_s": price.period,
            "utilisation": price.utilisation,
            "links": [
                {
                    "between": list(pair),
                    "peak_gbit_per_s": gbits(price.peak[pair]),
                    "mean_gbit_per_s": gbits(price.mean[pair]),
                }
                for pair in price.peak
            ],
            "device_gib": price.device_bytes / 2**30,
            "host_gib": price.host_bytes / 2**30,
            "penalty": {
                "kind": one.sync.penalty.kind,
                "text": one.sync.penalty.text,
                "source": one.sync.penalty.source,
                "compress": price.way.packed.how.penalty,
            },
            "perplexity_of_inner_steps": (
                float(inner_steps_perplexity(float(price.way.steps))) if one.sync.inner else None
            ),
            "compute_to_same_loss": one.compute,
            "days_to_train": one.days,
            "cost_usd_to_train": one.usd,
            "days_to_same_loss": one.to_loss(one.days),
            "cost_usd_to_same_loss": one.to_loss(one.usd),
            "crossover_gbit_per_s": None if crossover is None or unbounded else gbits(crossover),
            "always_ahead": unbounded,
        }
    )
    return document


def failures_per_day(site: Site) -> float | None:
    """Return how often a site fails; None where its file does not say. [1/d]"""
    if site.device_mtbf is None:
        return None
    return DAY / float(job_mtbf_seconds(float(site.device_mtbf), float(site.gpus)))


def sites_document(result: SitesResult, request: SitesRequest, defaults: Mapping[str, Any]) -> Document:
    """Return a search over sites as JSON."""
    lead = (*result.ranked, *result.others)[:1]
    document: Document = plain(
        {
            "schema": SITES,
            "model": {"name": request.model.name, "params": request.model.params},
            "sites": [
                {
                    "name": one.name,
                    "cluster": request.clusters[one.name].name,
                    "gpus": one.gpus,
                    "replicas": one.replicas,
                    "replica_batch": request.workload_at(one.name).global_batch,
                    "failures_per_day": failures_per_day(one),
                }
                for one in request.profile.sites
            ],
            "workload": {
                "seq_len": request.workload.seq_len,
                "global_batch": request.whole_workload.global_batch,
                "precision": request.workload.precision,
                "optimizer": request.workload.optimizer,
            },
            "runtime": request.runtime.name,
            "release": request.runtime.release,
            "defaults": dict(defaults),
            "ways": [way_document(one) for one in result.ranked],
            "not_ranked": [way_document(one) for one in result.others],
            "by_inner_steps": [way_document(one) for one in result.by_steps],
            "curves": {
                "narrowest_gbit_per_s": [gbits(rate) for rate in result.rates],
                "step_time_s": {name: list(steps) for name, steps in result.curves.items()},
            },
            "narrowest_gbit_per_s": gbits(result.narrowest),
            "critical_batch_tokens": result.critical_tokens,
            "time_with_twice_the_replicas": (
                twice_the_replicas(result.ranked[0], request, result.critical_tokens)
                if result.ranked
                else None
            ),
            "diloco_batch_tokens": best_batch_tokens(float(request.model.params), request.profile.replicas),
            "searched": result.searched,
            "unfit": list(result.unfit),
            "nearest": result.failed.nearest if result.failed is not None else None,
            "elapsed_s": result.elapsed,
        }
    )
    inside = {name: estimate_document(one, {}) for name, one in lead[0].plans.items()} if lead else {}
    return document | {"plans": inside}
