"""What DeepSpeed accepts, engine by engine: ZeRO, pipeline, Ulysses, AutoTP and AutoEP."""

from __future__ import annotations

import numpy as np

from planner.inputs.model import Attention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule, divides, nearest_divisors
from planner.runtimes.family import Job, Runtime
from planner.runtimes.hub.chunks import chunk_rules
from planner.runtimes.hub.config import (
    adapted_rule,
    architecture,
    balancing_loss,
    unwritten_rules,
    whole_layer_rules,
)
from planner.runtimes.hub.masked import masked_rule
from planner.runtimes.offered import (
    dtype_rules,
    exactly,
    head_counts,
    is_plain_causal,
    sequence_rule,
    technique_rules,
    ties_rule,
    unsplit_sequence_rule,
    whole_shard_rule,
    width_rules,
)
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

AUTOEP_ARCHITECTURES = ("mixtral", "qwen3_moe", "deepseek_v3")
"""Presets of AutoEP that a planner's model can have."""

AUTOTP_ARCHITECTURES = ("llama", "qwen2", "qwen3", "mixtral", "qwen3_moe")
"""Architectures whose attention and feed-forward AutoTP splits over all ranks."""

UNSTAGED = {
    "gpt2": ("learned positions", "rotary positions"),
    "granite": ("scaled embeddings and logits", "a model without"),
}
"""What the stages of the script do not have, by the architecture that needs it, and what they have."""


def deepspeed_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a plan must keep to run on DeepSpeed with the training script written beside it."""
    model, work = job.model, job.workload
    kind = architecture(model)
    return [
        *technique_rules(plan, job, runtime),
        *dtype_rules(work, _dtypes(plan, work)),
        whole_shard_rule(plan),
        *_offload_rules(plan, work),
        *_pipeline_rules(plan, model, work),
        Rule(
            "pipeline-architecture",
            np.equal(plan.pp, 1) | (kind not in UNSTAGED),
            lambda: (
                f"pp {plan.pp:g} with {UNSTAGED[kind or ''][0]}",
                f"pp 1, or {UNSTAGED[kind or ''][1]}",
                "pp 1",
            ),
        ),
        *_tensor_rules(plan, model, kind),
        *_sequence_rules(plan, model, work.seq_len),
        *_expert_rules(plan, model, kind),
        *unwritten_rules(plan, model, ("tp", "cp", "pp", "ep")),
        *whole_layer_rules(plan, model),
        *chunk_rules(job),
        adapted_rule(model, work),
        masked_rule(model, work),
    ]


def _dtypes(plan: Plan, work: Workload) -> dict[str, tuple[str, ...]]:
    low = (work.precision,)
    gradients = low if plan.zero == 0 else (*low, "fp32")
    return {"state_dtype": ("fp32",), "master_dtype": ("fp32",), "gradient_dtype": gradients}


def _offload_rules(plan: Plan, work: Workload) -> list[Rule]:
    choice = read_offload(OFFLOADS, plan.offload)
    parted = choice.optimizer and choice.share < 1.0
    least = 3 if choice.fetches or choice.disk or parted else 1 if choice.optimizer else 0
    return [
        Rule(
            "offload-needs-zero",
            plan.zero >= least,
            lambda: (
                f"offload {plan.offload} with zero {plan.zero}",
                f"zero {least} or more",
                f"zero {least}",
            ),
        ),
        Rule(
            "lora-without-offload",
            work.method == "full" or plan.offload == "none",
            lambda: (
                f"{work.method} with offload {plan.offload}",
                "full training or no offload",
                "offload none",
            ),
        ),
    ]


def _pipeline_rules(plan: Plan, model: ModelSpec, work: Workload) -> list[Rule]:
    piped = np.greater(plan.pp, 1)
    flat = np.logical_not(piped)
    others = (("tp", plan.tp), ("cp", plan.cp), ("ep", plan.ep))
    engine = "the pipeline engine runs the script's own stages, which are not split further"
    rules = [
        exactly("no-virtual-stages", "vpp", plan.vpp, 1.0, "the pipeline engine has one stage per rank"),
        Rule(
            "pipeline-needs-zero-0-1",
            flat | (plan.zero <= 1),
            lambda: (
                f"pp {plan.pp:g} with zero {plan.zero}",
                "zero 0 or 1 under the pipeline engine",
                "zero 1",
            ),
        ),
        Rule(
            "pipeline-offload",
            flat | (plan.offload == "none"),
            lambda: (f"pp {plan.pp:g} with offload {plan.offload}", "no offload under a pipeline", "none"),
        ),
        Rule(
            "pipeline-method",
            flat | (work.method == "full"),
            lambda: (f"pp {plan.pp:g} with {work.method}", "full training under a pipeline", "pp 1"),
        ),
        Rule(
            "pipeline-balance",
            flat | (not balancing_loss(model)),
            lambda: (
                f"pp {plan.pp:g} with numerics.router.aux_loss {balancing_loss(model):g}",
                "no loss of the experts' balance: the stages pass hidden states alone",
                "pp 1",
            ),
        ),
        ties_rule(plan, model),
    ]
    return rules + [
        exactly(f"pipeline-without-{name}", name, degree, 1.0, engine, piped) for name, degree in others
    ]


def _tensor_rules(plan: Plan, model: ModelSpec, kind: str | None) -> list[Rule]:
    split = np.greater(plan.tp, 1)
    rules = [
        *width_rules(plan, model),
        unsplit_sequence_rule(plan, "AutoTP keeps activations whole"),
        Rule(
            "autotp-without-ulysses",
            np.logical_not(split) | np.equal(plan.cp, 1),
            lambda: (f"tp {plan.tp:g} with cp {plan.cp:g}", "AutoTP or Ulysses, not both", "tp 1 or cp 1"),
        ),
    ]
    if kind not in AUTOTP_ARCHITECTURES:
        why = "AutoTP has no plan that splits this model's attention"
        rules.append(exactly("autotp-has-plan", "tp", plan.tp, 1.0, why))
    return rules


def _sequence_rules(plan: Plan, model: ModelSpec, seq_len: int) -> list[Rule]:
    heads, kv_heads = head_counts(model)
    rules = [
        sequence_rule(seq_len, plan.cp, "cp"),
        Rule(
            "ulysses-heads",
            divides(plan.cp, heads) & (divides(plan.cp, kv_heads) | divides(kv_heads, plan.cp)),
            lambda: (
                f"cp {plan.cp:g} over {heads} heads, {kv_heads} of keys and values",
                "a divisor of the heads that divides the key/value heads or is a multiple of them",
                f"cp {nearest_divisors(plan.cp, kv_heads)}",
            ),
        ),
    ]
    mixers = [one for block in model.blocks.values() for one in block.mixers or (None,)]
    if not (is_plain_causal(model) and all(isinstance(mixer, Attention) for mixer in mixers)):
        why = "Ulysses here wraps plain causal attention with equal head widths"
        rules.append(exactly("ulysses-attention", "cp", plan.cp, 1.0, why))
    return rules


def _expert_rules(plan: Plan, model: ModelSpec, kind: str | None) -> list[Rule]:
    alone = np.equal(plan.ep, 1)
    split = np.greater(plan.tp, 1)
    third = alone | (plan.zero < 3) | np.equal(plan.cp, 1)
    rules = [
        exactly("experts-whole", "etp", plan.etp, 1.0, "AutoEP does not split an expert"),
        Rule(
            "autotp-needs-autoep",
            np.logical_not(split & alone) | (not model.expert_kinds),
            lambda: (f"tp {plan.tp:g} with ep 1", "ep above 1: AutoTP leaves experts whole", "tp 1, or ep 2"),
        ),
        Rule(
            "autoep-without-ulysses",
            third,
            lambda: (f"ep {plan.ep:g} with cp {plan.cp:g} and zero 3", "zero 2 or less, or cp 1", "zero 2"),
        ),
        Rule(
            "autoep-needs-offload-none",
            alone | np.logical_not(split) | (plan.offload == "none"),
            lambda: (f"ep {plan.ep:g} and tp {plan.tp:g} with offload", "no offload", "offload none"),
        ),
    ]
    if kind not in AUTOEP_ARCHITECTURES:
        rules.append(exactly("autoep-has-preset", "ep", plan.ep, 1.0, "AutoEP has no preset for this model"))
    return rules
