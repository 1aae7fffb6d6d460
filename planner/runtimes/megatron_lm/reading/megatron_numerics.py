"""The positions, norms, initialiser and router that a Megatron-LM script's flags describe."""

from __future__ import annotations

import math
from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_lm.numerics import LLAMA3

LOSSES: Final = ("aux_loss", "seq_aux_loss", "global_aux_loss")
"""Kinds of balance that take the coefficient (Megatron-core, moe/router.py, ``get_aux_loss_coeff``)."""


def numerics_record(sheet: Sheet, sparse: bool) -> dict[str, Any]:
    """Return the fields of `Numerics` that the flags say; what is left to a default is left out."""
    latent, positions = sheet.has("--multi-latent-attention"), sheet.take("--position-embedding-type")
    record: dict[str, Any] = {
        "rope_theta": _number(sheet, "--rotary-base"),
        "rope_fraction": _share(_number(sheet, "--rotary-percent")),
        "rope_scaling": _scaling(sheet, latent, str(positions)),
        "norm_epsilon": _number(sheet, "--norm-epsilon", "--layernorm-epsilon"),
        "init_std": _number(sheet, "--init-method-std"),
        "activation": _activation(sheet, sparse),
    }
    router = _router(sheet)
    if sparse and router:
        record["router"] = router
    return {name: value for name, value in record.items() if value is not None}


def _number(sheet: Sheet, *keys: str, none: float | None = None) -> float | None:
    """Return a number above 0, or None where none or the word for it is said; another value is a fault."""
    value = sheet.take(*keys)
    if value is None:
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if number == none:
        return None
    if not 0 < number <= 1e15:
        sheet.fault(keys[0], repr(str(value)[:60]), "a number above 0")
        return None
    return number


def _share(share: float | None) -> float | None:
    return None if share is None or share >= 1 else share


def _activation(sheet: Sheet, sparse: bool) -> str | None:
    offset = sheet.take("--glu-linear-offset")
    clamp = sheet.take("--activation-func-clamp-value")
    if clamp is not None and sheet.has("--swiglu") and (not sparse or offset not in (None, "0", "0.0")):
        sheet.fault("--activation-func-clamp-value", str(clamp)[:60], "with --swiglu experts, and no offset")
    if sheet.has("--quick-geglu"):
        for key, value, usual in (
            ("--glu-linear-offset", offset, "1"),
            ("--activation-func-clamp-value", clamp, "7"),
        ):
            if value is not None and str(value).removesuffix(".0") != usual:
                sheet.notes.append(f"{key} {str(value)[:60]}: priced as {usual}, the one that models have")
        return "swiglu_oai" if offset is not None else "quick_gelu"
    return "silu" if sheet.has("--swiglu") else "relu2" if sheet.has("--squared-relu") else None


MSCALE: Final = 1.0
"""What YaRN of latent attention takes unless it is told (Megatron-core, ``MLATransformerConfig``). [-]"""


def _scaling(sheet: Sheet, latent: bool, positions: str) -> dict[str, Any] | None:
    own = "--" if latent else "--yarn-"  # latent attention reads fields of its own, which no argument sets
    llama, factor = sheet.has("--use-rope-scaling"), _number(sheet, "--rope-scaling-factor")
    linear = _number(sheet, "--rotary-seq-len-interpolation-factor")
    yarn = {
        "factor": _number(sheet, "--rotary-scaling-factor"),
        "mscale": _number(sheet, "--mscale") or (MSCALE if latent else None),
        "mscale_all_dim": _number(sheet, "--mscale-all-dim", none=0.0),
        "original_positions": sheet.whole(f"{own}original-max-position-embeddings"),
        "beta_fast": _number(sheet, f"{own}beta-fast"),
        "beta_slow": _number(sheet, f"{own}beta-slow"),
        "truncate": False if sheet.has("--no-yarn-correction-range-round-to-int") else None,
    }
    kind = sheet.take("--rope-type")
    if llama:
        return {"kind": "llama3", "factor": factor or 8.0} | LLAMA3
    if (kind == "yarn" and yarn["factor"]) if latent else positions == "yarn":
        return {"kind": "yarn", "factor": 1.0} | {
            name: value for name, value in yarn.items() if value is not None
        }
    return None if linear is None else {"kind": "linear", "factor": linear}


def _router(sheet: Sheet) -> dict[str, Any]:
    score = sheet.take("--moe-router-score-function")
    groups, top = sheet.whole("--moe-router-num-groups"), sheet.whole("--moe-router-group-topk")
    kind, loss = sheet.take("--moe-router-load-balancing-type"), sheet.take("--moe-aux-loss-coeff")
    balanced = kind is None or str(kind) in LOSSES
    record: dict[str, Any] = {
        "score": score if score in ("softmax", "sigmoid") else None,
        "groups": groups,
        "top_groups": top if groups else None,
        "scale": _number(sheet, "--moe-router-topk-scaling-factor"),
        "expert_bias": True if sheet.has("--moe-router-enable-expert-bias") else None,
        "per_sequence": True if kind == "seq_aux_loss" else None,
    }
    if balanced and loss is not None and str(loss).strip("0.") and " " not in str(loss).strip():
        record["aux_loss"] = _number(sheet, "--moe-aux-loss-coeff")
    return {name: value for name, value in record.items() if value is not None}
