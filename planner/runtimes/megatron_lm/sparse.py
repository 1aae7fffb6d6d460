"""Latent attention whose keys an indexer picks, as Megatron-core builds it: its flags and what it needs.

Read in Megatron-LM d98e8a64 (core 0.20): ``experimental_attention_variant/dsa.py`` and
``transformer_config.py``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.mixers.indexer import Indexer
from planner.inputs.model import LatentAttention, ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job, Runtime

SINCE: Final = "0.20"
"""First release whose indexer this was read in, with context parallelism and fused kernels."""

VARIANT: Final = "dsa"
"""Its name among the experimental variants of attention."""

KERNELS: Final = "tilelang"
"""Fused kernels that training runs; PyTorch's own fall back to keep a matrix of scores."""

LOSS_SHARE: Final = 1.0
"""Weight of the loss that teaches the index, and nothing else: the paper adds it as it is. [-]"""


def indexer_of(model: ModelSpec) -> Indexer | None:
    """Return the indexer of a model's attention, if there is one."""
    found = (mixer.indexer for mixer in model.attentions if isinstance(mixer, LatentAttention))
    return next((one for one in found if one is not None), None)


def indexer_flags(indexer: Indexer | None) -> list[str]:
    """Return the flags of an indexer, which learns on the picked keys (DeepSeek-V3.2, eq. 4)."""
    if indexer is None:
        return []
    return [
        *("--experimental-attention-variant", VARIANT),
        *("--dsa-indexer-n-heads", str(indexer.heads)),
        *("--dsa-indexer-head-dim", str(indexer.head_dim)),
        *("--dsa-indexer-topk", str(indexer.topk)),
        *("--dsa-indexer-loss-coeff", str(LOSS_SHARE)),
        *("--dsa-indexer-use-sparse-loss", "--dsa-kernel-backend", KERNELS),
        *(["--dsa-indexer-rope-interleaved", "--no-dsa-indexer-rotate-activation"] * indexer.interleaved),
    ]


def indexer_release_rule(job: Job, runtime: Runtime) -> Rule:
    """Return the rule that a release of Megatron-LM has indexers, where the model has one."""
    release = runtime.release or runtime.versions[0]
    return Rule(
        "release-has-indexers",
        indexer_of(job.model) is None or release >= SINCE,
        lambda: (f"an indexer that picks the keys with release {release}", f"release {SINCE}", SINCE),
    )


def indexer_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of an indexer in Megatron-core: keys of all ranks, all weights trained."""
    if indexer_of(job.model) is None:
        return []
    return [
        Rule(
            "indexer-gathers-keys",
            np.less_equal(plan.cp, 1) | (plan.cp_method == "all-gather"),
            lambda: (
                f"cp {plan.cp:g} by {plan.cp_method}",
                "all-gather: an indexer picks among the keys of the whole sequence",
                "cp method all-gather",
            ),
        ),
        Rule(
            "indexer-trains-whole",
            job.workload.method == "full",
            lambda: (
                f"method {job.workload.method}",
                "full: adapters beside an indexer are not priced",
                "full",
            ),
        ),
    ]


def indexer_setting_rules(job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rule that CUDA graphs hold no attention whose keys an indexer picks.

    Megatron-core neither forbids the capture nor knows of it. A graph repeats addresses, and the fused
    kernels keep scratch in a cache of few entries, from which a tensor that a graph writes to may be dropped.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``experimental_attention_variant/``: no word of capture, and in
       ``ops/tilelang_dsa.py`` ``_evict_scratch_cache_if_needed``; ``transformer_config.py``, where it checks
       ``cuda_graph_impl``, asks nothing of the variant; no unit or functional test has both.
    """
    graphed = runtime.traits.kernels.graphed
    if indexer_of(job.model) is None or graphed not in ("attention", "passes"):
        return []
    return [
        Rule(
            "graphs-hold-no-indexer",
            False,
            lambda: (
                f"CUDA graphs of {graphed} with an indexer that picks the keys",
                "none: Megatron-core's code and tests have no capture of it",
                "--set cuda_graphs=router",
            ),
        )
    ]
