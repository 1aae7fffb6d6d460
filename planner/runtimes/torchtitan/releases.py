"""What torchtitan's releases differ in: products in blocks of low bits, rings of keys, every nth layer."""

from __future__ import annotations

import numpy as np

from planner.dataclasses import replace
from planner.inputs.model import DenseFfn, ModelSpec
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.torchtitan.delta import is_delta
from planner.runtimes.torchtitan.sinking import is_sinking
from planner.units import is_whole


def is_old(version: str) -> bool:
    """Whether a release has its configuration in TOML."""
    return version.startswith("0.2.")


def release_rules(plan: Plan, job: Job, version: str) -> list[Rule]:
    """Return the rules on what only some releases have.

    References
    ----------
    .. [1] torchtitan 0.2.2, ``torchtitan/models/llama3/infra/parallelize.py``, "DDP has not supported > 1D
       parallelism"; ``torchtitan/distributed/utils.py``, ``maybe_enable_amp``.
    """
    shards = np.greater(np.where(plan.zero == 0, 1.0, plan.zero_shards) * plan.cp, 1)
    return [
        *_low_bit_rules(plan, job, version),
        Rule(
            "release-shards-beside-others",
            shards | np.equal(plan.tp * plan.pp, 1) | (not is_old(version)),
            lambda: (
                f"tp {plan.tp:g}, pp {plan.pp:g} and no shards with release {version}",
                "shards over two ranks or more: without, products are in fp32 and DDP stands alone",
                "zero 3",
            ),
        ),
        Rule(
            "release-has-sinks",
            not is_sinking(job.model) or not is_old(version),
            lambda: (f"attention sinks with release {version}", "the newest release", "the newest"),
        ),
        Rule(
            "release-has-delta",
            not is_delta(job.model) or not is_old(version),
            lambda: (f"gated delta nets with release {version}", "the newest release", "the newest"),
        ),
        Rule(
            "release-has-every-nth-layer",
            layers_again(plan.recompute) is None or is_old(version),
            lambda: (
                f"recompute {plan.recompute} with release {version}",
                "none, selective or full; a release from 0.2.0 to 0.2.2 has every nth layer",
                "full",
            ),
        ),
        Rule(
            "release-has-ring",
            np.less_equal(plan.cp, 1) | (plan.cp_method != "ring") | is_old(version),
            lambda: (
                f"cp method {plan.cp_method} with release {version}",
                "all-gather, or a release from 0.2.0 to 0.2.2, which rotate keys and values",
                "all-gather",
            ),
        ),
    ]


def layers_again(recompute: str) -> int | None:
    """Return N of ``full:N``, the layers that run again; None of another choice.

    Examples
    --------
    >>> layers_again("full:16"), layers_again("full")
    (16, None)
    """
    name, _, count = recompute.partition(":")
    return int(count) if name == "full" and is_whole(count) and int(count) else None


def as_newest(plan: Plan) -> Plan:
    """Return a plan with the choices of the newest release in place of those that older ones have too.

    These are keys and values in a ring, and recompute of every nth layer; no search tries them.
    """
    method = "all-gather" if plan.cp_method == "ring" else plan.cp_method
    again = plan.recompute if layers_again(plan.recompute) is None else "full"
    return replace(plan, cp_method=method, recompute=again)


def nth_layer_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rule that layers which run again are every nth (``_layer_sac_count % ac_freq``)."""
    count = layers_again(plan.recompute)
    if count is None:
        return []
    layers, every = model.num_layers, max(1, model.num_layers // count)
    return [
        Rule(
            "recompute-every-nth-layer",
            np.less_equal(plan.pp, 1) & (layers // every == count),
            lambda: (
                f"recompute {plan.recompute} of {layers} layers, pp {plan.pp:g}",
                "every nth layer, and pp 1",
                f"full:{layers // every}",
            ),
        )
    ]


BLOCK = 128
"""Rows and columns of products in NVFP4 are multiples of it (``components/quantization/nvfp4.py``). [-]"""


def _low_bit_rules(plan: Plan, job: Job, version: str) -> list[Rule]:
    """Return the rules on products whose blocks have scales of their own."""
    model, precision = job.model, job.workload.precision
    if precision not in ("mxfp8", "nvfp4"):
        return []
    tokens = plan.micro_batch * job.workload.seq_len / plan.cp
    widths = [
        model.hidden,
        *(block.ffn.inner for block in model.blocks.values() if isinstance(block.ffn, DenseFfn)),
    ]
    even = divides(float(BLOCK), tokens)
    for width in widths:
        even = even & divides(BLOCK * plan.tp, float(width))
    return [
        Rule(
            "low-bits-of-dense-layers",
            not model.expert_kinds,
            lambda: (
                f"precision {precision} with experts",
                "dense layers: these files convert no experts",
                "fp8",
            ),
        ),
        Rule(
            "release-has-nvfp4",
            precision != "nvfp4" or not is_old(version),
            lambda: (f"precision nvfp4 with release {version}", "the newest release", "mxfp8"),
        ),
        Rule(
            "nvfp4-blocks-divide",
            (precision != "nvfp4") | even,
            lambda: (
                f"nvfp4 with tp {plan.tp:g} and {tokens:g} tokens of a rank",
                f"widths over tp and tokens of a rank that are multiples of {BLOCK}",
                "tp 1",
            ),
        ),
    ]
