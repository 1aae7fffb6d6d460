"""Numbers that random models get beside their shape, and how each runner's own config says them back."""

from __future__ import annotations

import random
from typing import Any

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import Numerics
from planner.runtimes.hub.config import architecture
from planner.runtimes.hub.numerics import MULTIPLIERS

WITH_NUMBERS = ("torchtitan", "deepspeed", "fsdp", "nanotron")
"""Runtimes whose harness compares numbers."""

LLAMA = {
    "kind": "llama3", "factor": 8.0, "original_positions": 8192, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}  # fmt: skip
YARN = {
    "kind": "yarn", "factor": 40.0, "original_positions": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
    "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
LINEAR = {"kind": "linear", "factor": 4.0}


def is_latent(model: ModelSpec) -> bool:
    """Whether attention is latent."""
    return isinstance(model.blocks[model.layers[0]].mixer, LatentAttention)


def known(model: ModelSpec, runtime: str, rng: random.Random) -> ModelSpec:
    """Return the model with numbers that its kind may have on a runtime."""
    fields: dict[str, Any] = {
        "rope_theta": rng.choice((1e4, 5e5, 1e6)),
        "norm_epsilon": rng.choice((1e-5, 1e-6, 3e-6)),
        "init_std": rng.choice((0.02, 0.006)),
        "activation": "gelu_tanh" if model.learned_positions else "silu",
    }
    scaling = LINEAR if runtime == "nanotron" else YARN if is_latent(model) else LLAMA
    if runtime in ("deepspeed", "fsdp"):
        scaling = _stretched(model, rng) or scaling
    elif is_latent(model):
        scaling = scaling | rng.choice(({}, {"mscale": 0.707, "mscale_all_dim": 0.707}, {"truncate": False}))
    if not model.learned_positions and rng.random() < 0.5:
        fields["rope_scaling"] = scaling
    if is_latent(model):
        groups = {"groups": 8, "top_groups": 4} if rng.random() < 0.5 else {}
        fields["router"] = {"score": "sigmoid", "normalize": True, "scale": 2.5, "expert_bias": True} | groups
    elif model.expert_kinds and runtime != "nanotron":
        loss = {} if runtime == "torchtitan" else {"aux_loss": rng.choice((0.001, 0.01))}
        fields["router"] = {"score": "softmax", "normalize": rng.random() < 0.7} | loss
    told = model.model_copy(update={"numerics": Numerics.model_validate(fields)})
    if runtime in ("deepspeed", "fsdp") and architecture(told) == "llama" and rng.random() < 0.4:
        scales = dict(zip(MULTIPLIERS, (0.0078125, 12.0, 0.22, 0.0625), strict=True))
        return model.model_copy(update={"numerics": Numerics.model_validate(fields | scales)})
    return told


def drawn(model: ModelSpec, rng: random.Random) -> ModelSpec:
    """Return the model with numbers drawn from all that Megatron-core has a place for, or as it is."""
    if rng.random() < 0.4:
        return model
    own = model.numerics
    fields: dict[str, Any] = {
        "norm_epsilon": rng.choice((1e-5, 1e-6, 3e-6)),
        "init_std": rng.choice((0.02, 0.006)),
        "activation": own.activation,
    }
    if not model.learned_positions:
        fields |= {"rope_theta": rng.choice((1e4, 5e5, 1e6)), "rope_scaling": _stretched(model, rng)}
    if not is_latent(model):
        fields["attention_scale"] = rng.choice((None, None, None, 0.09))
        fields["rope_fraction"] = None if model.learned_positions else rng.choice((None, None, 0.5))
    if model.expert_kinds:
        fields["router"] = _routed(rng)
    return model.model_copy(update={"numerics": Numerics.model_validate(fields)})


def _stretched(model: ModelSpec, rng: random.Random) -> dict[str, Any] | None:
    """Return a scaling of a kind that may be said, with some of the fields that may be left out."""
    kind = rng.choice((None, "yarn") if is_latent(model) else (None, "llama3", "linear", "yarn"))
    if kind != "yarn":
        return {None: None, "llama3": LLAMA, "linear": LINEAR}[kind]
    choices = {
        "beta_fast": (32.0, 16.0), "beta_slow": (1.0, 2.0), "mscale": (1.0, 0.707),
        "mscale_all_dim": (1.0, 0.707), "truncate": (True, False),
    }  # fmt: skip
    told = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}
    factors = {"factor": rng.choice((4.0, 40.0)), "original_positions": rng.choice((2048, 4096))}
    return {"kind": "yarn"} | factors | told


def _routed(rng: random.Random) -> dict[str, Any]:
    """Return a router with some of its fields."""
    fields: dict[str, Any] = {"score": rng.choice(("softmax", "sigmoid")), "normalize": rng.random() < 0.7}
    fields |= {"expert_bias": rng.random() < 0.3, "scale": rng.choice((None, None, 2.5))}
    fields |= rng.choice(({}, {"groups": 8, "top_groups": 4}))
    return fields | rng.choice(({}, {"aux_loss": 0.01}, {"aux_loss": 0.001, "per_sequence": True}))


def hub_says(model: ModelSpec) -> dict[str, Any]:
    """Return what ``check_hub.numbers_of`` should find."""
    own, kind = model.numerics, architecture(model)
    wanted: dict[str, Any] = {
        "epsilon": own.norm_epsilon,
        "init_std": own.init_std,
        "tied": model.tied_embeddings,
        "activation": own.activation,
    }
    if kind == "gpt2":
        return wanted
    if kind == "granite":
        wanted["multipliers"] = [getattr(own, name) for name in MULTIPLIERS]
    scaling = own.rope_scaling
    wanted["rope"] = {"theta": own.rope_theta, "kind": scaling.kind if scaling else "default"}
    wanted["rope"]["fraction"] = own.rope_fraction or 1.0
    if scaling is not None:
        names = (
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "attention_factor",
            "truncate",
        )
        wanted["rope"] |= {name: value for name in names if (value := getattr(scaling, name)) is not None}
        if scaling.original_positions is not None:
            wanted["rope"]["original"] = scaling.original_positions
    router = own.router
    if router is None:
        return wanted
    if kind in ("deepseek_v3", "glm4_moe"):
        wanted["router"] = {
            "normalize": router.normalize, "scale": router.scale, "groups": router.groups or 1,
            "top_groups": router.top_groups or 1, "topk": model.expert_kinds[0].topk,
        }  # fmt: skip
    else:
        wanted["router"] = {"loss": router.aux_loss, "topk": model.expert_kinds[0].topk}
        if kind == "qwen3_moe":
            wanted["router"]["normalize"] = router.normalize
    return wanted


def titan_says(model: ModelSpec, layer: str) -> dict[str, Any]:
    """Return what ``check_torchtitan.numbers_of`` should find of a layer, beside fields that do not bind."""
    own = model.numerics
    wanted: dict[str, Any] = {"theta": own.rope_theta, "norm_eps": own.norm_epsilon, "init_std": own.init_std}
    scaling = own.rope_scaling
    wanted["scaling"] = {None: "none", "llama3": "llama", "yarn": "yarn"}[scaling.kind if scaling else None]
    if scaling is not None and scaling.kind == "llama3":
        wanted |= {"scaling_factor": scaling.factor, "low_freq_factor": scaling.low_freq_factor}
        wanted |= {"high_freq_factor": scaling.high_freq_factor}
        wanted |= {"original_max_position_embeddings": scaling.original_positions}
    elif scaling is not None:
        wanted |= {
            "rope_factor": scaling.factor,
            "beta_fast": scaling.beta_fast or 32.0,
            "beta_slow": scaling.beta_slow or 1.0,
        }
        wanted |= {"original_seq_len": scaling.original_positions, "truncate": scaling.truncate is not False}
        wanted["mscale"] = scaling.mscale_all_dim
    ffn, router = model.blocks[layer].ffn, own.router
    if ffn.kind == "moe":
        wanted |= {"top_k": getattr(ffn, "topk"), "load_balance_coeff": 1e-3}  # noqa: B009
    if ffn.kind == "moe" and router is not None:
        wanted |= {
            "score_func": router.score,
            "route_norm": router.normalize,
            "route_scale": router.scale or 1.0,
        }
        grouped = (router.groups, router.top_groups) if router.grouped else (None, None)
        wanted |= dict(zip(("num_expert_groups", "num_limited_groups"), grouped, strict=True))
    return wanted


def nanotron_says(model: ModelSpec) -> dict[str, Any]:
    """Return what ``check_nanotron.numbers_of`` should find."""
    own, blocks = model.numerics, [model.blocks[name] for name in model.layers]
    return {
        "theta": own.rope_theta,
        "interpolation": own.rope_scaling.factor if own.rope_scaling else 1.0,
        "epsilon": own.norm_epsilon,
        "init_std": own.init_std,
        "tied": model.tied_embeddings,
        "activation": own.activation,
        "topk": model.expert_kinds[0].topk if model.expert_kinds else None,
        "bare": next((n for n, block in enumerate(blocks, 1) if not block.mixer.rotary), None),
    }
