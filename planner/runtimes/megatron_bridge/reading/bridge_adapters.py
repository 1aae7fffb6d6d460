"""Which layers carry adapters, from the modules that LoRA of Megatron-Bridge names.

Read in Megatron-Bridge 067f987d, peft/lora.py and peft/module_matcher.py: a name that the model has not is
passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LATENT: Final = {"linear_q_proj", "linear_q_down_proj", "linear_q_up_proj",
                 "linear_kv_down_proj", "linear_kv_up_proj"}  # fmt: skip
"""Layers of latent attention, in the place of ``linear_qkv``."""

OTHERS: Final = {"linear_proj": "proj", "linear_fc1": "fc1", "linear_fc2": "fc2"}
"""Layers of every attention and feed-forward, by the planner's names."""

WAYS: Final = ({"linear_q_proj"}, {"linear_q_down_proj", "linear_q_up_proj"})
"""How queries of latent attention are made, beside its keys and values."""


def is_latent(said: Mapping[str, Any], root: str) -> bool:
    """Return whether the model of a container has latent attention."""
    own = said.get(f"{root}model.multi_latent_attention")
    return own is True or (own is None and said.get(f"{root}model") == "MLAModelProvider")


def adapted(targets: object, latent: bool) -> list[str]:
    """Return the layers that carry an adapter, each once; none where the targets are no list.

    Examples
    --------
    >>> adapted(["linear_qkv", "linear_q_proj", "linear_fc1"], False), adapted(["linear_qkv"], True)
    (['qkv', 'fc1'], [])
    """
    names = targets if isinstance(targets, list) else []
    into = LATENT if latent else {"linear_qkv"}
    found = ["qkv" if name in into else OTHERS.get(name, "") for name in map(str, names)]
    return [name for name in dict.fromkeys(found) if name]


def adapter_fault(targets: object, latent: bool) -> tuple[str, str] | None:
    """Return what is wrong with the targets, and what would do; None where nothing is."""
    if not isinstance(targets, list):
        return None
    names = {str(name) for name in targets} & LATENT if latent else set()
    if not adapted(targets, latent):
        return (
            f"{', '.join(map(str, targets))}: no layer of the model",
            "linear_proj, linear_fc1 or linear_fc2",
        )
    if names and not any(names == way | {"linear_kv_down_proj", "linear_kv_up_proj"} for way in WAYS):
        return f"{', '.join(sorted(names))}: a part of attention", "all projections into attention, or none"
    return None
