"""What of a plan and a file is other where Megatron-Bridge builds a model of layers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.model import Attention, ModelSpec
from planner.plan import Plan
from planner.remembered import remembered
from planner.rules import Rule
from planner.runtimes.family import Job, Runtime
from planner.runtimes.megatron_bridge.code import Code, Section
from planner.runtimes.megatron_bridge.own_kinds import FLEX, PROVIDERS, UNFUSED
from planner.runtimes.megatron_bridge.own_parts import OwnLayers, mixers_of
from planner.runtimes.megatron_lm.offload import offloaded_modules
from planner.runtimes.megatron_lm.recompute import granularity
from planner.runtimes.offered import exactly, offered

NOT_THEIRS: Final = (
    "transformer_layer_spec", "window_size", "window_attn_skip_freq", "softmax_type", "rotary_base",
)  # fmt: skip
"""Fields that a provider with layers of its own says otherwise, or not at all."""


@remembered(most=64)
def own_layers(model: ModelSpec) -> OwnLayers | None:
    """Return the provider that builds of a model what Megatron-core lacks; None where it lacks nothing."""
    return next((one for one in PROVIDERS.values() if one.builds(model)), None)


@remembered(most=64)
def as_core(model: ModelSpec) -> ModelSpec:
    """Return a model without what its own provider builds: all of the rest has to be Megatron-core's.

    Of layers with a window and whole ones, heads, widths of values and sinks are those of the whole ones.
    """
    own = own_layers(model)
    if own is None:
        return model
    model, scaled = own.built(model), "scaled-router" in own.variants
    usual: dict[str, Any] = dict.fromkeys(own.numbers)
    usual |= {"activation": "silu"} if "activation" in own.numbers else {}
    blocks = {}
    whole = next(mixer for mixer in mixers_of(model) if mixer.window is None)
    for name, block in model.blocks.items():
        mixer = block.attention
        assert isinstance(mixer, Attention)
        kept = {"window": mixer.window, "rotary": mixer.rotary, "v_head_dim": None}
        plain = whole.model_copy(update=kept)
        if plain.qk_norm == "full":
            plain = plain.model_copy(update={"qk_norm": "head"})
        ffn = block.ffn.model_copy(update={"router_bias": False}) if scaled and block.ffn else block.ffn
        blocks[name] = block.model_copy(update={"norms": 2, "mixer": plain, "ffn": ffn})
    core: dict[str, Any] = {
        "blocks": blocks,
        "variants": tuple(name for name in model.variants if name not in own.variants),
        "numerics": model.numerics.model_copy(update=usual),
    }
    if model.prediction is not None:
        core["prediction"] = model.prediction.model_copy(update={"block": model.layers[-1]})
    return model.model_copy(update=core)


def core_job(job: Job) -> Job:
    """Return a job of the model without what its own provider builds."""
    core = as_core(job.model)
    return job if core is job.model else replace(job, model=core)


def as_own(fields: Section, model: ModelSpec) -> Section:
    """Return the fields of a provider as those of the model's own one, where it has one."""
    own = own_layers(model)
    if own is None:
        return fields
    kept = {name: value for name, value in fields.items() if name not in NOT_THEIRS}
    if "activation" in own.numbers:
        kept["activation_func"] = Code("torch.nn.functional.gelu")
    said = own.fields(model)
    left_out = {name for name, value in said.items() if value is None}
    return {name: value for name, value in {**kept, **said}.items() if name not in left_out}


def as_built(model: ModelSpec) -> ModelSpec:
    """Return a model with the weights that its own provider keeps beside the model's."""
    own = own_layers(model)
    return model if own is None else own.built(model)


def own_traits(model: ModelSpec) -> Mapping[str, Any]:
    """Return what a model's own layers do that Megatron-core's do not, by flat name of traits."""
    own = own_layers(model)
    return {} if own is None else own.traits


def own_layer_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of a model whose layers are its provider's."""
    own = own_layers(job.model)
    if own is None:
        return []
    found = [offered("own-layers-train-whole", "method", job.workload.method, own.methods)]
    if own.whole_sequence:
        why = f"the attention of {own.provider} sees whole sequences"
        found.append(exactly("own-layers-whole-sequence", "cp", plan.cp, 1.0, why))
    if own.plain:
        found.append(_whole_norms_rule(own, plan))
    groups = min(mixer.kv_heads for mixer in mixers_of(job.model))
    if own.whole_groups:
        found.append(
            Rule(
                "own-layers-split-groups",
                plan.tp <= groups,
                lambda: (
                    f"tp {plan.tp:g}",
                    f"at most the {groups} key/value heads: {own.provider} asks for it",
                    f"tp {groups}",
                ),
            )
        )
    return found


def own_setting_rules(job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules that layers run what they have: their attention in 16 bit, or no graphs."""
    own, attention = own_layers(job.model), runtime.traits.attention
    if own is None:
        return []
    if own.plain:
        asked = [name for name in own.plain if runtime.traits.value_of(name)]
        return [_plain_rule(own, asked)]
    if own.traits not in (UNFUSED, FLEX):
        return []
    kind, title = ("flex", "FlexAttention") if own.traits is FLEX else ("unfused", "unfused")
    return [
        Rule(
            f"{kind}-attention-alone",
            attention.kernel == own.traits["attention"] and not attention.fp8,
            lambda: (
                f"attention {attention.kernel}{' in fp8' * attention.fp8}",
                f"{title} in 16 bit: {own.spec[-1] if own.spec else own.provider} has no other",
                "no --set of attention",
            ),
        )
    ]


def _plain_rule(own: OwnLayers, asked: list[str]) -> Rule:
    """Return the rule that nothing is switched on which a provider's own layers pass by."""
    return Rule(
        "own-layers-run-plainly",
        not asked,
        lambda: (
            f"{', '.join(asked)} switched on",
            f"none of {', '.join(own.plain)}: {own.provider} refuses them or has no kernel",
            "the usual settings",
        ),
    )


def _whole_norms_rule(own: OwnLayers, plan: Plan) -> Rule:
    """Return the rule that norms which a layer reads by their weights are neither run again nor offloaded."""
    again, hosted = granularity(plan.recompute), offloaded_modules(plan.offload)
    asked = [name for name in (again.modules if again else ()) if name == "norm"]
    asked += [name for name in hosted if name == "mlp_norm"]
    return Rule(
        "own-layers-keep-norms",
        not asked,
        lambda: (
            f"recompute {plan.recompute}, offload {plan.offload}",
            f"neither of norms: {own.provider} refuses it",
            "recompute none",
        ),
    )
