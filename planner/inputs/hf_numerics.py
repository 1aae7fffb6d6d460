"""What a ``config.json`` says beside shapes: positions, norms, scales, router, initialiser.

A key that is absent has the value of the type's configuration class, as in transformers' own models. Read in
huggingface/transformers v5.23.0, ``src/transformers/models/<type>/configuration_*.py`` and, for what no key
says, ``modeling_*.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from planner.inputs import hf_beside
from planner.inputs.hf_defaults import COMMON, DEFAULTS, EPSILONS, ROUTERS
from planner.inputs.hf_fields import Config
from planner.inputs.hf_masked import ADDED, EPSILON_KEYS

_FLOAT = "a number above 0"
ACTIVATIONS: Final = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu", "relu2": "relu2",
    "quick_gelu": "quick_gelu", "xielu": "xielu",
}  # fmt: skip

_EPSILON: Final = ("rms_norm_eps", "layernorm_epsilon")
_ROPE_KINDS: Final = {"su": "longrope"} | {
    kind: kind for kind in ("linear", "dynamic", "yarn", "llama3", "longrope")
}
_ROPE_KEYS: Final = {
    "factor": "factor", "original_positions": "original_max_position_embeddings",
    "low_freq_factor": "low_freq_factor", "high_freq_factor": "high_freq_factor", "beta_fast": "beta_fast",
    "beta_slow": "beta_slow", "mscale": "mscale", "mscale_all_dim": "mscale_all_dim",
    "attention_factor": "attention_factor", "truncate": "truncate", "short_factor": "short_factor",
    "long_factor": "long_factor",
}  # fmt: skip
_SCALES: Final = {
    "attention_softcap": "attn_logit_softcapping",
    "logit_softcap": "final_logit_softcapping",
    "qkv_clip": "clip_qkv",
    "logit_scale": "logit_scale",
    "attention_scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "value_scale": "attention_value_scale",
}


UNSTRETCHED: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("gemma4_text", "gemma4_unified_text", "lfm3"), ("proportional",)
)
"""Words of a type for positions that are not stretched, and that a variant of its blocks tells."""


def numerics(config: Config, kind: str, rotary: bool, sparse: bool) -> dict[str, Any]:
    """Return the fields of `Numerics` for a config of the model type ``kind``; faults go to ``config``."""
    known = {**DEFAULTS, **ADDED, **hf_beside.DEFAULTS}
    own = _Keys(config, {**COMMON, **known.get(kind, {})}, UNSTRETCHED.get(kind, ()))
    record: dict[str, Any] = {
        "norm_epsilon": own.number(*(EPSILONS | EPSILON_KEYS).get(kind, _EPSILON)),
        "init_std": own.number("initializer_range", "init_std"),
        "activation": _activation(own, kind),
    }
    record |= _positions(own) if rotary else {}
    record |= {field: own.number(key) for field, key in _SCALES.items()}
    logits, width = own.number("logits_scaling"), own.number("query_pre_attn_scalar")
    if logits:
        record["logit_scale"] = 1 / logits
    if width:
        record["attention_scale"] = width**-0.5
    scaled = kind.startswith("gemma") or kind == "vaultgemma"
    if scaled or config.flag("mup_enabled") or config.flag("scale_embedding", kind == "biogpt"):
        record["embedding_scale"] = math.sqrt(config.whole("hidden_size"))
    record |= _minicpm(own) if kind == "minicpm3" else {}
    if scales := _part_scales(own):
        record["part_scales"] = scales
    if sparse:
        record["router"] = _router(own, kind)
    ones = ("embedding_scale", "residual_scale", "logit_scale")
    return {
        key: value for key, value in record.items() if value is not None and not (key in ones and value == 1)
    }


PARTS: Final = {
    "key": "key_multiplier", "attention_in": "attention_in_multiplier",
    "attention_out": "attention_out_multiplier", "state_in": "ssm_in_multiplier",
    "state_out": "ssm_out_multiplier", "state": "ssm_multipliers", "feed": "mlp_multipliers",
}  # fmt: skip
"""Fields of `PartScales` and the keys that say them."""


def _part_scales(own: _Keys) -> dict[str, Any]:
    """Return the constants of parts that are not one."""
    found: dict[str, Any] = {}
    for field, key in PARTS.items():
        said = own.config.raw.get(key)
        values = [own.checked(key, one) for one in (said if isinstance(said, list) else [said])]
        if any(one not in (None, 1.0) for one in values):
            found[field] = values if isinstance(said, list) else values[0]
    return found


def _minicpm(own: _Keys) -> dict[str, Any]:
    """Return the scales of MiniCPM3: of residuals by depth over the root of layers, of logits by width."""
    depth, base = own.number("scale_depth") or 1.4, own.number("dim_model_base") or 256.0
    return {
        "embedding_scale": own.number("scale_emb"),
        "residual_scale": depth / math.sqrt(own.config.whole("num_hidden_layers")),
        "logit_scale": base / own.config.whole("hidden_size"),
    }


class _Keys:
    """Keys of a config with the type's own defaults, which are not notes."""

    def __init__(self, config: Config, defaults: Mapping[str, Any], plain: tuple[str, ...] = ()) -> None:
        self.config, self.defaults, self.plain = config, defaults, plain

    def value(self, *names: str) -> Any:
        """The first of ``names`` that is set, else the default of the first, else nothing."""
        raw = self.config.raw
        found = next((raw[name] for name in names if raw.get(name) is not None), None)
        absent = not any(name in raw for name in names)
        return self.defaults.get(names[0]) if found is None and absent else found

    def number(self, *names: str) -> float | None:
        """A number above 0, or nothing; anything else is a fault."""
        return self.checked(names[0], self.value(*names))

    def checked(self, name: str, value: Any) -> float | None:
        """``value`` if it is a finite number above 0, or a fault under ``name``."""
        if value is None:
            return None
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not math.isfinite(value) or not 0 < value <= 1e15:
            self.config.fault(name, repr(value), _FLOAT)
            return None
        return float(value)


def _activation(own: _Keys, kind: str) -> str | None:
    if kind in ("gpt_oss", "minimax_m3_vl_text"):
        return "swiglu_oai"
    if kind == "nemotron_h":
        return ACTIVATIONS.get(str(own.value("mlp_hidden_act")))
    names = ("hidden_activation", "hidden_act", "activation_function", "activation")
    said = own.value(*names) or own.value("hidden_act")
    known = ACTIVATIONS.get(str(said))
    if known is None:
        own.config.fault("hidden_act", repr(said), f"one of {', '.join(ACTIVATIONS)}")
    return known


def _positions(own: _Keys) -> dict[str, Any]:
    """Base, share and stretching of rotary positions, under the keys of transformers 4 or of 5."""
    raw = own.config.raw
    told = raw.get("rope_parameters")
    each = told if isinstance(told, dict) else {}
    if isinstance(each.get("full_attention"), dict):
        near, each = each.get("sliding_attention"), each["full_attention"]
        local = near.get("rope_theta") if isinstance(near, dict) else None
    else:
        local = own.value("rope_local_base_freq", "swa_rope_theta")
    old = raw.get("rope_scaling")
    scaling = old if isinstance(old, dict) else each
    theta = own.checked("rope_theta", each.get("rope_theta", own.value("rope_theta")))
    alpha = own.checked("rope_scaling.alpha", scaling.get("alpha"))
    if theta and alpha:
        theta, scaling = _stretched(own, theta, alpha), {}
    share = own.checked(
        "partial_rotary_factor", each.get("partial_rotary_factor", own.value("partial_rotary_factor"))
    )
    if share is None and (turned := own.checked("rotary_dim", raw.get("rotary_dim"))) is not None:
        share = turned / _head_width(own)
    local = own.checked("rope_local_base_freq", local)
    if share is not None and share > 1:
        own.config.fault("partial_rotary_factor", share, "at most 1")
        share = None
    return {
        "rope_theta": theta,
        "local_rope_theta": None if local == theta else local,
        "rope_fraction": None if share == 1 else share,
        "rope_scaling": _scaling(own, scaling),
    }


def _stretched(own: _Keys, theta: float, alpha: float) -> float:
    """Return the base that Hunyuan's ``alpha`` makes of another (``modeling_hunyuan_v1_dense.py``)."""
    width = _head_width(own)
    return float(theta * alpha ** (width / (width - 2)))


def _head_width(own: _Keys) -> float:
    """Width of a head, of which ``rotary_dim`` says how much has positions (MiniMax-M2, GPT-J)."""
    said = own.number("head_dim")
    hidden, heads = own.number("hidden_size", "n_embd"), own.number("num_attention_heads", "n_head")
    return said or ((hidden or 1.0) / (heads or 1.0))


def _scaling(own: _Keys, said: Mapping[str, Any]) -> dict[str, Any] | None:
    word = str(said.get("rope_type", said.get("type", "default")))
    if word in ("default", "mrope", *own.plain) or not said:
        return None
    if word not in _ROPE_KINDS:
        own.config.fault("rope_scaling", word[:40], f"one of default, {', '.join(_ROPE_KINDS)}")
        return None
    found = {field: said[key] for field, key in _ROPE_KEYS.items() if said.get(key) is not None}
    if "original_positions" not in found and _ROPE_KINDS[word] == "longrope":
        found["original_positions"] = own.config.raw.get("original_max_position_embeddings")
    scales = {said[key] for key in ("short_mscale", "long_mscale") if said.get(key) is not None}
    if len(scales) > 1:
        own.config.fault("rope_scaling", "short_mscale and long_mscale that differ", "equal ones")
    found |= {"attention_factor": scales.pop()} if scales else {}
    return {"kind": _ROPE_KINDS[word]} | {key: value for key, value in found.items() if value is not None}


def _router(own: _Keys, kind: str) -> dict[str, Any]:
    record = dict({**ROUTERS, **hf_beside.ROUTERS}.get(kind, {}))
    score = own.value("scoring_func", "expert_selection_fn")
    if score in ("softmax", "sigmoid"):
        record["score"] = score
    elif score is not None:
        own.config.fault("scoring_func", repr(score), "softmax or sigmoid")
    grouped = own.value("topk_method") not in ("greedy", None) or kind != "deepseek_v2"
    groups = own.config.whole("n_group", otherwise=int(own.defaults.get("n_group", 1)))
    if grouped and groups > 1:
        record["groups"] = groups
        record["top_groups"] = own.config.whole(
            "topk_group", otherwise=int(own.defaults.get("topk_group", 1))
        )
    normal = own.value("moe_renormalize" if kind == "kimi_linear" else "norm_topk_prob")
    if isinstance(normal, bool) and "normalize" not in record:
        record["normalize"] = normal
    scale = own.number("routed_scaling_factor")
    loss = own.value("router_aux_loss_coef", "aux_loss_alpha")
    record |= {} if scale in (None, 1) else {"scale": scale}
    record |= (
        {} if loss is None else {"aux_loss": 0.0 if loss == 0 else own.checked("router_aux_loss_coef", loss)}
    )
    if own.value("seq_aux") is True and record.get("aux_loss"):
        record["per_sequence"] = True
    return {key: value for key, value in record.items() if value is not None}
