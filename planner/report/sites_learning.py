"""What ways over sites cost in learning, and how many replicas pay, for people."""

from __future__ import annotations

from planner.formulas.learning_laws import inner_steps_perplexity
from planner.report.page import counted, significant
from planner.search.sites.layer_rates import UNIFORM, bits_by_group
from planner.search.sites.rank import batch_cost, twice_the_replicas
from planner.search.sites.request import SitesRequest
from planner.search.sites.ways import Ranked, SitesResult
from planner.techniques.sync.family import best_batch_tokens
from planner.units import percent


def costs(result: SitesResult, request: SitesRequest, verbose: bool) -> list[str]:
    """Say what each way costs in learning, with its source; of the first alone where little is told."""
    told: dict[str, str] = {}
    for one in (*result.ranked, *result.others) if verbose else result.ranked[:1]:
        if not one.sync.exact:
            told.setdefault(one.sync.name, f"{one.sync.name}: {one.sync.costs}.")
        packed = one.price.way.packed.how
        if packed.name != "none":
            told.setdefault(packed.name, f"{packed.name}: {packed.penalty}.")
        if (kept := one.price.way.packed.asked) is not None:
            told.setdefault(kept.name, f"{kept.name}: {kept.penalty}.")
    if "layerwise" in told:
        told["bits"] = _bits(request)
    if result.ranked[0].price.way.sync.axis == "outer" and request.batches:
        told["shares"] = "Changes of unlike batches that count alike: unknown."
    told |= _more_steps(result.ranked[0])
    return [f"Cost in learning: {' '.join(told.values())}"] if told else []


def _bits(request: SitesRequest) -> str:
    """Say the bits of the embedding, the head and the layers."""
    uniform = request.packed.amount if request.packed is not None else UNIFORM
    groups = bits_by_group(request.model, uniform)
    told = (
        f"{name} "
        + " or ".join(f"{bits:g}" + (f" ({count})" if len(own) > 1 else "") for bits, count in own.items())
        for name, own in groups.items()
    )
    return f"Bits: {', '.join(told)}."


def _more_steps(lead: Ranked) -> dict[str, str]:
    """Say what more inner steps than the laws had may cost, which no compute above counts."""
    steps = lead.price.way.steps
    worse = float(inner_steps_perplexity(float(steps))) - 1.0
    if lead.sync.penalty.kind != "law" or not lead.sync.inner or worse <= 0:
        return {}
    seen = "as at 150 M, not counted (arXiv:2311.08105)"
    return {"steps": f"H {steps}: perplexity {percent(worse)} above H 50, {seen}."}


def batch_lines(result: SitesResult, request: SitesRequest, lead: Ranked) -> list[str]:
    """Say how the batch compares with the critical one, and how many replicas that bears."""
    critical, here = result.critical_tokens, lead.step_tokens
    most = int(critical // (here / request.profile.replicas))
    seen = "" if 85e6 <= request.model.params <= 1.2e9 else "; seen from 85 M to 1.2 B"
    bound, own = (significant(tokens / 1e6, 3) for tokens in (critical, here))
    more = percent(batch_cost(here, critical) - 1, 0)
    return [
        f"Critical batch: {bound} M tokens, {counted(most, 'such replica')}; beyond it more stop paying: "
        f"{own} M here cost {more} more tokens (arXiv:2410.21676{seen})."
    ]


def twice(result: SitesResult, request: SitesRequest, lead: Ranked) -> list[str]:
    """Say what as many replicas again would save."""
    share = twice_the_replicas(lead, request, result.critical_tokens)
    if share is None:
        return []
    return [
        f"Twice the replicas would take {significant(share, 2)} of the time to the same loss with "
        f"{lead.sync.name}."
    ]


def best_batch(request: SitesRequest) -> list[str]:
    """Say at which batch DiLoCo learned best."""
    best = best_batch_tokens(float(request.model.params), request.profile.replicas)
    return [
        f"DiLoCo learned best at {significant(best / 1e6, 3)} M tokens over all replicas, on 20 tokens a "
        "parameter (arXiv:2503.09799, sec. 4.3; seen to 2.4 B)."
    ]
