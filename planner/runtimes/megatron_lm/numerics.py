"""A model's positions, norms, scales and router for Megatron-core, and the fields that it cannot say.

Read in Megatron-LM d98e8a64: megatron/training/arguments.py, ``core_transformer_config_from_args``;
megatron/core/transformer/transformer_config.py; models/common/embeddings/rotary_pos_embedding.py, whose
``_apply_scaling`` fixes all of Llama 3.1's numbers but the factor; transformer/moe/moe_utils.py,
``topk_routing_with_score_function``, which scales sigmoid scores to a sum of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import RopeScaling, Router, without_place
from planner.runtimes.megatron_lm.architecture import Architecture
from planner.runtimes.numerics import RARE

LLAMA3: Final = {"original_positions": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LATENT_YARN: Final = {"original_positions": 4096, "beta_fast": 32.0, "beta_slow": 1.0}
"""Numbers that no flag changes: of Llama 3.1's scaling, and of yarn under latent attention."""

ROUNDED: Final = {"truncate": True}
"""What latent attention does with yarn's bounds, whatever a configuration says
(transformer/multi_latent_attention.py), which has a scale of attention of its own, too."""

GATED: Final = {
    "silu": ("--swiglu",),
    "quick_gelu": ("--quick-geglu",),
    "swiglu_oai": ("--quick-geglu", "--glu-linear-offset", "1.0", "--activation-func-clamp-value", "7.0"),
}
PLAIN: Final[dict[str, tuple[str, ...]]] = {"gelu_tanh": (), "gelu": (), "relu2": ("--squared-relu",)}
ONLY_ELSEWHERE: Final = tuple(name for name in RARE if name not in ("rope_fraction", "attention_scale"))
"""Fields of `Numerics` that Megatron-core has no place for: muP alone scales embeddings and logits, and with
them the initialiser and the learning rates."""


def number(value: float) -> str:
    """Return a number as text, whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() else repr(value)


def position_kind(model: ModelSpec, rotary: bool, latent: bool) -> str:
    """Return Megatron-core's name of how positions enter the model."""
    if model.learned_positions:
        return "learned_absolute"
    scaling = model.numerics.rope_scaling
    stretched = scaling is not None and scaling.kind == "yarn" and not latent
    return ("yarn" if stretched else "rope") if rotary else "none"


def activation_flags(model: ModelSpec, arch: Architecture) -> list[str]:
    """Return the flags of the feed-forward's activation: SwiGLU or GELU where it is not known."""
    known = GATED if arch.gated else PLAIN
    usual = "silu" if arch.gated else "gelu"
    return list(known.get(model.numerics.activation or usual, ()))


def numeric_flags(model: ModelSpec, arch: Architecture) -> list[str]:
    """Return the flags of positions, norms and initialiser, as far as they are known."""
    own = model.numerics
    latent = isinstance(arch.mixer, LatentAttention)
    flags = [] if own.rope_theta is None else ["--rotary-base", number(own.rope_theta)]
    flags += [] if own.rope_fraction is None else ["--rotary-percent", number(own.rope_fraction)]
    flags += [] if own.rope_scaling is None else _scaling_flags(own.rope_scaling, latent)
    flags += [] if own.norm_epsilon is None else ["--norm-epsilon", repr(own.norm_epsilon)]
    return flags + ([] if own.init_std is None else ["--init-method-std", repr(own.init_std)])


def _scaling_flags(scaling: RopeScaling, latent: bool) -> list[str]:
    factor = number(scaling.factor or 1.0)
    if scaling.kind == "llama3":
        return ["--use-rope-scaling", "--rope-scaling-factor", factor]
    if scaling.kind == "linear":
        return ["--rotary-seq-len-interpolation-factor", factor]
    named = {"--mscale": scaling.mscale, "--mscale-all-dim": scaling.mscale_all_dim}
    if not latent:
        named |= {
            "--yarn-original-max-position-embeddings": scaling.original_positions,
            "--yarn-beta-fast": scaling.beta_fast,
            "--yarn-beta-slow": scaling.beta_slow,
        }
    flags = ["--rotary-scaling-factor", factor]
    flags += [part for key, value in named.items() if value is not None for part in (key, number(value))]
    return flags + (["--no-yarn-correction-range-round-to-int"] if scaling.truncate is False else [])


def router_flags(model: ModelSpec, arch: Architecture) -> list[str]:
    """Return the flags of the router, its balancing loss among them, as far as they are known."""
    router = model.numerics.router or Router()
    if arch.experts is None:
        return []
    biased = router.expert_bias or (arch.biases != "all" and arch.experts.router_bias)
    score = "sigmoid" if biased else router.score
    flags = [] if score is None else ["--moe-router-score-function", score]
    flags += ["--moe-router-enable-expert-bias"] if biased else []
    if router.grouped:
        flags += ["--moe-router-num-groups", str(router.groups)]
        flags += ["--moe-router-group-topk", str(router.top_groups or 1)]
    flags += [] if router.scale is None else ["--moe-router-topk-scaling-factor", number(router.scale)]
    flags += ["--moe-router-pre-softmax"] if pre_softmax(arch, router, bool(biased)) else []
    if router.aux_loss is None:
        return flags
    kind = "seq_aux_loss" if router.per_sequence else "aux_loss"
    return [*flags, "--moe-router-load-balancing-type", kind, "--moe-aux-loss-coeff", repr(router.aux_loss)]


def pre_softmax(arch: Architecture, router: Router, biased: bool) -> bool:
    """Whether scores are those of all experts: for one choice, or where they are not scaled to one."""
    if arch.experts is None or biased or router.score == "sigmoid":
        return False
    return arch.experts.topk == 1 or router.normalize is False or router.grouped


def unsaid(model: ModelSpec, arch: Architecture) -> tuple[str, ...]:
    """Return the fields of the model's numerics that no file for Megatron-core says."""
    own = model.numerics
    found = without_place(own, ONLY_ELSEWHERE)
    if own.activation is not None and own.activation not in (GATED if arch.gated else PLAIN):
        found.append(f"numerics.activation {own.activation}")
    latent = isinstance(arch.mixer, LatentAttention)
    if own.rope_scaling is not None:
        found += _unsaid_scaling(own.rope_scaling, latent)
    if latent and own.attention_scale is not None:
        found.append(f"numerics.attention_scale {own.attention_scale:g} with latent attention")
    router = own.router
    if router is not None and router.score == "sigmoid" and router.normalize is False:
        found += ["numerics.router.normalize false"] if arch.experts and arch.experts.topk > 1 else []
    if router is not None and router.score == "softmax" and router.grouped and router.normalize:
        found.append("numerics.router.normalize true with groups of softmax scores")
    if router is not None and router.score == "softmax" and router.expert_bias:
        found.append("numerics.router.expert_bias with softmax scores")
    return tuple(found)


def unflagged(model: ModelSpec, arch: Architecture) -> tuple[str, ...]:
    """Return the fields that Megatron-core has and no argument of ``pretrain_gpt.py`` sets."""
    own, found = model.numerics, []
    latent = isinstance(arch.mixer, LatentAttention)
    if own.rope_theta is not None and not own.rope_theta.is_integer():
        found.append(f"numerics.rope_theta {own.rope_theta:g}, not a whole number")
    if own.attention_scale is not None and not latent:
        found.append(f"numerics.attention_scale {own.attention_scale:g}")
    if own.rope_scaling is not None and own.rope_scaling.kind == "yarn":
        found += _fixed(own.rope_scaling, LATENT_YARN if latent else {})
    return tuple(found)


def _fixed(scaling: RopeScaling, fixed: Mapping[str, float]) -> list[str]:
    return [
        f"numerics.rope_scaling.{name} {getattr(scaling, name):g}, fixed at {value:g}"
        for name, value in fixed.items()
        if getattr(scaling, name) not in (None, value)
    ]


def _unsaid_scaling(scaling: RopeScaling, latent: bool) -> list[str]:
    where = "numerics.rope_scaling"
    if scaling.kind in ("dynamic", "longrope") or (scaling.kind != "yarn" and latent):
        return [f"{where} {scaling.kind}"]
    found = _fixed(scaling, LLAMA3 if scaling.kind == "llama3" else ROUNDED if latent else {})
    if scaling.kind == "linear" and not (scaling.factor or 1.0).is_integer():
        found.append(f"{where}.factor {scaling.factor:g}, not a whole number")
    return found + ([f"{where}.attention_factor"] if scaling.attention_factor is not None else [])
