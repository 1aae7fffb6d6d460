"""Rules of Megatron-core on experts: who sends their tokens, and what runs beside the messages."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from planner.inputs.model import Attention
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.environment import HOPPER
from planner.runtimes.megatron_lm.hybrid import is_hybrid
from planner.runtimes.megatron_lm.recompute import granularity
from planner.runtimes.traits import Traits
from planner.techniques.settings.shared_expert_overlap import with_shared_expert

AMPERE: Final = 8.0
"""Compute capability from which grouped products run (Megatron-LM d98e8a64, training/arguments.py), and fused
dispatchers (Megatron-Bridge 067f987d, training/flex_dispatcher_backend.py)."""

FUSED_GATES: Final = ("silu", "quick_gelu", "swiglu_oai")
"""Activations of gated experts that have a fused kernel."""

SOCKETS: Final = ("ethernet", "tcpx")
"""Kinds of network that devices do not write to by themselves."""


def expert_rules(plan: Plan, job: Job, traits: Traits) -> list[Rule]:
    """Return the rules on experts' dispatcher, and on their messages beside compute."""
    rules = [_grouped_rule(job), _activation_rule(job, traits)]
    if traits.experts.dispatcher == "fused":
        rules.append(_dispatcher_rule(job, traits))
    if traits.experts.overlaps_shared and with_shared_expert(job.model, job.workload):
        rules += _shared_rules(plan, traits)
    return rules + (_overlap_rules(plan, job, traits) if traits.experts.overlaps else [])


def _shared_rules(plan: Plan, traits: Traits) -> list[Rule]:
    """Return the rules on a shared expert beside messages; most are moot where no token leaves.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``core/transformer/transformer_config.py``: no recompute of the shared
       expert, no overlap with another micro-batch, and ``moe/paged_stash.py`` for graphs of all passes.
    """
    whole, wanted = np.less_equal(plan.ep, 1), granularity(plan.recompute)
    again = wanted is not None and not wanted.whole and "shared_experts" in wanted.modules
    nearest = "--set shared_expert_overlap=off"
    return [
        Rule(
            "shared-overlap-in-one-batch",
            not traits.experts.overlaps,
            lambda: ("shared expert overlap with expert overlap", "one of the two", nearest),
        ),
        Rule(
            "shared-overlap-keeps-inputs",
            whole | (not again),
            lambda: (f"shared expert overlap with recompute {plan.recompute}", "other modules", nearest),
        ),
        Rule(
            "shared-overlap-outside-graphs",
            whole | (traits.kernels.graphed != "passes"),
            lambda: ("shared expert overlap in graphs of all passes", "graphs of layers, or none", nearest),
        ),
    ]


def _overlap_rules(plan: Plan, job: Job, traits: Traits) -> list[Rule]:
    """Return the rules on experts' messages beside compute.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``pipeline_parallel/combined_1f1b.py`` asks a model for
       ``build_schedule_plan``, which ``models/hybrid/hybrid_model.py`` has not.
    """
    single = np.less_equal(plan.ep, 1)
    wanted, layers = granularity(plan.recompute), job.model.prediction
    kept = wanted is None or not (wanted.whole or "moe" in wanted.modules)
    return [
        Rule(
            "expert-overlap-needs-chunks",
            single | np.equal(plan.pp, 1) | np.greater(plan.vpp, 1),
            lambda: (
                f"expert overlap with pp {plan.pp:g}, vpp 1",
                "several chunks of each rank, or pp 1",
                "schedule interleaved-1f1b, or --set expert_overlap=off",
            ),
        ),
        Rule(
            "expert-overlap-without-hybrid",
            single | (not is_hybrid(job.model)),
            lambda: (
                "expert overlap in a hybrid",
                "none: its model makes no schedule of two micro-batches at once",
                "--set expert_overlap=off",
            ),
        ),
        Rule(
            "expert-overlap-keeps-layers",
            single | kept,
            lambda: (
                f"expert overlap with recompute {plan.recompute}",
                "none, or modules other than moe",
                "recompute selective, or --set expert_overlap=off",
            ),
        ),
        Rule(
            "expert-overlap-delays-gradients",
            single | _delays(job, traits),
            lambda: (
                f"expert overlap with graphs of {traits.kernels.graphed}",
                "attention without biases in them, and fused_weight_gradient: gradients are delayed",
                "--set cuda_graphs=none",
            ),
        ),
        Rule(
            "expert-overlap-predicts-once",
            single | (layers is None or layers.layers <= 1),
            lambda: (
                f"expert overlap with {layers.layers if layers else 0} prediction layers",
                "one at most",
                "--set expert_overlap=off",
            ),
        ),
    ]


def _delays(job: Job, traits: Traits) -> bool:
    """Whether graphs of layers let weight gradients be delayed (training/arguments.py, `validate_args`)."""
    biased = any(isinstance(one, Attention) and one.qkv_bias for one in job.model.attentions)
    graphed, fused = traits.kernels.graphed, traits.kernels.fused_weight_gradient
    return graphed not in ("attention", "router") or (fused and not (biased and graphed == "attention"))


def _grouped_rule(job: Job) -> Rule:
    """Return where the products of a rank's experts are one kernel, as in every file written here."""
    device = job.hardware.pool.accelerator
    return Rule(
        "grouped-products-run",
        device.compute_capability is None or device.compute_capability >= AMPERE,
        lambda: (
            f"experts on {device.name}, compute capability {device.compute_capability}",
            f"compute capability {AMPERE} or more",
            "a model without experts",
        ),
    )


def _activation_rule(job: Job, traits: Traits) -> Rule:
    """Return where the activation of experts has a fused kernel, or none is asked for.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``core/transformer/moe/experts.py``, `TEGroupedMLP.bias_act_func`: SwiGLU and
       its quick variant alone.
    """
    known = job.model.numerics.activation or "silu"
    gated = any(ffn.gated for ffn in job.model.expert_kinds)
    return Rule(
        "experts-fuse-activation",
        not gated or known in FUSED_GATES or not traits.kernels.fused_activation,
        lambda: (f"a fused {known} in experts", ", ".join(FUSED_GATES), "--set fused_activation=false"),
    )


def _dispatcher_rule(job: Job, traits: Traits) -> Rule:
    """Return where fused dispatchers run: over NVLink, between nodes from Hopper on, with counts that vary.

    References
    ----------
    .. [1] DeepEP, https://github.com/deepseek-ai/DeepEP/issues/216 (NVLink is a must), issues/234 (Ampere:
       inside a node alone); dd758caf, ``README.md``: RDMA between nodes.
    """
    pool = job.hardware.pool
    device, links, network = pool.accelerator, pool.node.scaleup, pool.network
    capability = math.inf if device.compute_capability is None else device.compute_capability
    leaves = capability >= HOPPER and network is not None and network.kind not in SOCKETS
    known = device.vendor.lower() == "nvidia" and capability >= AMPERE and links.between_devices
    return Rule(
        "fused-dispatcher-runs",
        known and (leaves or job.gpus <= pool.scaleup_domain) and not traits.experts.static,
        lambda: (
            f"fused expert dispatcher on {device.name} over {links.link}"
            + (", static experts" * traits.experts.static),
            "NVIDIA's with NVLink, before Hopper or without RDMA on one node; no dropped tokens",
            "--set expert_dispatcher=all-to-all",
        ),
    )
