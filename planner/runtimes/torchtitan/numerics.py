"""A model's positions, norms, initialiser and router as torchtitan's configs have them.

Read in torchtitan b5bcd76c: models/common/rope.py, config_utils.py and moe.py; models/deepseek_v3/model.py,
whose softmax is scaled by the square of ``0.1 mscale ln(factor) + 1``. A router's balance is that of a bias
on each expert (``load_balance_coeff``); there is no balancing loss.
"""

from __future__ import annotations

import math

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import RopeScaling, Router, without_place
from planner.runtimes.numerics import RARE
from planner.runtimes.torchtitan import delta
from planner.runtimes.torchtitan.sinking import FAMILY, stretches

INIT_STD = 0.02
EPSILON = 1e-5
"""Where the model's own are not known."""


def is_latent(model: ModelSpec) -> bool:
    """Whether attention is latent."""
    return isinstance(model.blocks[model.layers[0]].mixer, LatentAttention)


def numeric_data(model: ModelSpec) -> dict[str, object]:
    """Return what the emitted module builds positions, norms, weights and routers from."""
    own = model.numerics
    usual = 10000.0 if is_latent(model) else 500000.0
    data: dict[str, object] = {
        "rope": {"theta": own.rope_theta or usual} | _scaling_data(own.rope_scaling),
        "norm_eps": own.norm_epsilon or EPSILON,
        "init_std": own.init_std or INIT_STD,
    }
    if is_latent(model) and own.rope_scaling is not None and own.rope_scaling.mscale_all_dim:
        data["mscale"] = own.rope_scaling.mscale_all_dim
    return data | ({"router": _router_data(model)} if model.expert_kinds else {})


def _scaling_data(scaling: RopeScaling | None) -> dict[str, object]:
    if scaling is None:
        return {}
    if scaling.kind == "llama3":
        return {
            "scaling": "llama",
            "scaling_factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_positions,
        }
    fields: dict[str, object] = {
        "scaling": "yarn",
        "rope_factor": scaling.factor,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        "original_seq_len": scaling.original_positions,
        "truncate": scaling.truncate,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _router_data(model: ModelSpec) -> dict[str, object]:
    router = model.numerics.router or Router()
    usual = "sigmoid" if is_latent(model) else "softmax"
    data: dict[str, object] = {
        "score_func": router.score or usual,
        "route_norm": router.normalize is not False,
        "route_scale": router.scale or 1.0,
    }
    if router.grouped:
        data |= {"num_expert_groups": router.groups, "num_limited_groups": router.top_groups or 1}
    return data


def unsaid(model: ModelSpec, kind: str) -> tuple[str, ...]:
    """Return the fields of the model's numerics that the emitted module of a family cannot say."""
    own = model.numerics
    found = without_place(own, [one for one in RARE if one != "rope_fraction" or kind != delta.FAMILY])
    if own.activation not in (("swiglu_oai",) if kind == FAMILY else (None, "silu")):
        found.append(f"numerics.activation {own.activation}")
    scaling = own.rope_scaling
    if scaling is not None and not _has_scaling(scaling, kind):
        found.append(f"numerics.rope_scaling {scaling.kind}")
    return tuple(found)


def _has_scaling(scaling: RopeScaling, kind: str) -> bool:
    """Whether a family's rotary positions stretch so; cosines and sines of their own, as Qwen3's, do not."""
    if kind == FAMILY:
        return stretches(scaling)
    if scaling.kind == "llama3":
        return kind not in ("qwen3", delta.FAMILY)
    if scaling.kind != "yarn" or kind != "deepseek_v3":
        return False
    mscale = scaling.mscale if scaling.mscale is not None else 1.0
    whole = scaling.mscale_all_dim or 0.0
    return scaling.attention_factor is None and whole > 0.0 and math.isclose(mscale, whole)


def old_unsaid(model: ModelSpec, version: str, kind: str) -> tuple[str, ...]:
    """Return the fields that a release 0.2 cannot say for a family, beside those of `unsaid`."""
    own, router = model.numerics, model.numerics.router
    found = []
    if own.init_std not in (None, INIT_STD):
        found.append(f"numerics.init_std {own.init_std:g}")
    if own.rope_scaling is not None and kind == "qwen3":
        found.append(f"numerics.rope_scaling {own.rope_scaling.kind}")
    if router is not None and router.grouped and version == "0.2.0":
        found.append(f"numerics.router.groups {router.groups}")
    return tuple(found)
