"""Feed-forwards and losses in tiles of the sequence: ALST's, as the training script has them."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.model import DenseFfn
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job, Runtime
from planner.runtimes.hub.config import architecture

TILES: Final = {"MLP_TILES": "mlp_tiles", "LOSS_TILES": "loss_chunks"}
"""Constants of the script, and the traits that they set."""

COUNTS: Final = tuple(2.0**power for power in range(1, 11))
"""Numbers of tiles that files can say."""

TILED: Final = ("llama", "qwen2", "qwen3")
"""Architectures whose layers and head the script tiles: a module ``mlp`` in each, logits as they are."""


def tile_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on tiles; none where there are none.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``: ``TiledMLP`` and
       ``SequenceTiledCompute`` mark the last tile, by their number, so that ZeRO reduces a gradient once; the
       mean of the tiles' losses is that of the tokens where tiles are alike.
    """
    tiles = {"mlp_tiles": runtime.traits.kernels.mlp_tiles, "loss_tiles": runtime.traits.loss.chunks}
    asked = {name: count for name, count in tiles.items() if count > 1.0}
    rules: list[Rule] = []
    for name, count in asked.items():
        rules += _degree_rules(plan, job, name, count)
        rules += _model_rules(job, name, runtime.traits.kernels.compiled)
    if "mlp_tiles" in asked:
        rules.append(_gathered_rule(plan, job, runtime))
    if "loss_tiles" in asked:
        rules.append(
            Rule(
                "loss-tiles-untied",
                not job.model.tied_embeddings,
                lambda: (
                    "loss_tiles with tied embeddings",
                    "a head of its own: ZeRO reduces a gradient once in a backward",
                    "--set loss_tiles=1",
                ),
            )
        )
    return rules


def _gathered_rule(plan: Plan, job: Job, runtime: Runtime) -> Rule:
    """Return the rule that ZeRO-3 gathers a feed-forward's weights once for all tiles, as is priced.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``: weights stay while they
       come again within ``stage3_max_reuse_distance`` others, up to ``stage3_max_live_parameters``.
    """
    blocks = job.model.blocks.values()
    size = max(
        (one.ffn.params(job.model.hidden) for one in blocks if isinstance(one.ffn, DenseFfn)), default=0
    )
    engine = runtime.traits.engine
    return Rule(
        "mlp-tiles-gathered-once",
        (plan.zero < 3) | (size <= min(engine.reuse_elements, engine.live_elements)),
        lambda: (
            f"mlp_tiles with feed-forwards of {size:,} weights under zero 3",
            "as many within stage3_max_reuse_distance and stage3_max_live_parameters: else each tile gathers "
            "them again, which is not priced",
            f"--set reuse_elements={size:g} --set live_elements={size:g}",
        ),
    )


def _model_rules(job: Job, name: str, compiled: bool) -> list[Rule]:
    """Return the rules on what is trained with tiles, and how."""
    kind, method, word = architecture(job.model), job.workload.method, name.replace("_", "-")
    return [
        Rule(
            f"{word}-architecture",
            kind in TILED,
            lambda: (
                f"{name} with {kind or job.model.name}",
                f"one of {', '.join(TILED)}, whose modules the script tiles",
                f"--set {name}=1",
            ),
        ),
        Rule(
            f"{word}-uncompiled",
            not compiled,
            lambda: (
                f"{name} with compiled layers",
                "layers that are not compiled: a tile's backward runs inside a function of its own",
                "--set compiled=false",
            ),
        ),
        Rule(
            f"{word}-method",
            method == "full",
            lambda: (f"{name} with {method}", "full training", f"--set {name}=1"),
        ),
    ]


def _degree_rules(plan: Plan, job: Job, name: str, count: float) -> list[Rule]:
    """Return the rules on the degrees of a plan with tiles."""
    tokens, word = job.workload.seq_len / plan.cp, name.replace("_", "-")
    return [
        Rule(
            f"{word}-are-alike",
            divides(count, tokens),
            lambda: (
                f"{tokens:g} tokens of a rank in {count:g} tiles",
                "a number of tiles that divides them",
                f"--set {name}=1",
            ),
        ),
        Rule(
            f"{word}-alone",
            np.equal(plan.tp, 1) & np.equal(plan.pp, 1),
            lambda: (
                f"{name} {count:g} with tp {plan.tp:g} and pp {plan.pp:g}",
                "tp 1 and pp 1: the script tiles whole models",
                "tp 1, pp 1",
            ),
        ),
        Rule(
            f"{word}-zero",
            plan.zero >= 1,
            lambda: (f"{name} {count:g} with zero {plan.zero}", "zero 1 or more", "zero 3"),
        ),
    ]
