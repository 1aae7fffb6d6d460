"""Placements of reinforcement learning for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.calibrate.releases import title_of
from planner.cost.money import quote_of
from planner.cost.rollout import best_engine, cache_bytes
from planner.report.as_json import Document, estimate_document
from planner.report.layout import layout
from planner.report.page import Page, Table, counted, short_defaults, significant
from planner.report.search_answer import short_prices
from planner.search.post_training import Placement, PostTraining
from planner.units import GIB

POST_TRAINING: Final = "planner/post-training/1"

SHOWN: Final = 4
"""Placements of a page. [-]"""


def post_training_page(found: PostTraining, defaults: Mapping[str, Any]) -> Page:
    """Return the fastest placements for people, the best first."""
    answers, request = found.answers, found.request
    if not found.placements:
        pool, gpus = request.clusters[0].pool, request.gpu_counts[0]
        none = best_engine(request.model, pool, gpus, answers) is None
        lacks = "the model's weights with one answer's cache" if none else "a plan that trains it"
        return [f"No placement fits: {gpus:,} {pool.accelerator.name} do not hold {lacks}."]
    best, model = found.placements[0], request.model
    cluster, runtime = request.clusters[0], best.train.runtime
    head = (
        f"{model.name} ({model.params / 1e9:.3g} B) on {request.gpu_counts[0]:,} "
        f"{cluster.pool.accelerator.name} ({cluster.name}), {title_of(runtime)}; a step of "
        f"{counted(answers.prompts, 'prompt')} x {counted(answers.samples, 'answer')} of {answers.mean:,.0f} "
        f"tokens, at most {answers.longest:,.0f}"
    )
    table = Table(tuple(_row(rank, one) for rank, one in enumerate(found.placements[:SHOWN], 1)))
    return [head, table, "\n".join([*_told(best), *short_defaults(defaults)])]


def _row(rank: int, one: Placement) -> dict[str, str]:
    engine = one.engine
    where = f"{engine.gpus} + {one.train.job.gpus}" if one.apart else f"{engine.gpus} in turn"
    usd = one.usd
    return {
        "#": str(rank),
        "placement": where,
        "engine": f"tp{engine.ranks} x{engine.replicas}",
        "s/step": significant(one.step, 3),
        "generate": significant(one.generating, 3),
        "score": significant(one.scoring, 3),
        "train": significant(one.training, 3),
        "weights": f"{one.weights:.2f}",
        **({} if usd is None else {"$/step": f"{significant(usd, 3)}{_star(one)}"}),
    }


def _star(one: Placement) -> str:
    """Return the mark of another seller's price."""
    quote = quote_of(one.train.job.hardware.pool)
    return "*" if quote is not None and quote.lent else ""


def _others(best: Placement) -> str:
    """Return the name of accelerators that generate, where they are not those that train."""
    name = best.engine.pool.accelerator.name
    return "" if name == best.train.job.hardware.pool.accelerator.name else f" {name}"


def _told(best: Placement) -> list[str]:
    engine, train = best.engine, best.train
    cache = engine.at_once * cache_bytes(engine.model, engine.answers.tokens) / engine.ranks
    behind = (
        f" {engine.gpus} + {train.job.gpus}: {engine.gpus}{_others(best)} generate the next answers while "
        f"{train.job.gpus} train, so that answers are one step behind the weights."
        if best.apart
        else ""
    )
    waves = (
        f"{engine.at_once:,.0f} of its {engine.share:,.0f} at once"
        if engine.at_once < engine.share
        else f"all {engine.share:,.0f} at once"
    )
    return [
        f"Plan 1 is limited by {best.limit}.{behind}",
        f"To train: {layout(train.plan)}, {train.peak / GIB:.1f} of {train.capacity / GIB:.1f} GiB. "
        f"To generate: {engine.weight_bytes / GIB:.1f} GiB of weights and {cache / GIB:.1f} of cache "
        f"on each; a replica has {waves}.",
        "Unproven: no measured run tests generation, scoring or weights. Generation is a roofline of memory "
        "and arithmetic, answers thin out until the longest ends, and rewards and data take no time.",
        *short_prices([train]),
    ]


def post_training_rows(found: PostTraining) -> list[dict[str, Any]]:
    """Return a row of figures for each placement, the fastest first."""
    return [
        {
            "apart": one.apart,
            "gpus_generate": one.engine.gpus,
            "gpus_train": one.train.job.gpus,
            "engine_tp": one.engine.ranks,
            "at_once": one.engine.at_once,
            "step_time_s": one.step,
            "generate_s": one.generating,
            "score_s": one.scoring,
            "train_s": one.training,
            "weights_s": one.weights,
            "cost_usd_per_step": one.usd,
        }
        for one in found.placements
    ]


def post_training_document(found: PostTraining, defaults: Mapping[str, Any]) -> Document:
    """Return all placements as JSON, each with the plan that trains."""
    plans = (estimate_document(one.train, defaults) for one in found.placements)
    rows = [row | {"train": plan} for row, plan in zip(post_training_rows(found), plans, strict=True)]
    return {"schema": POST_TRAINING, "placements": rows}
