"""Inputs of a layer's modules that go to the host: what is copied, and what of it leaves the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from planner.cost.layer.norms import IN_PRODUCT
from planner.cost.layer.operators import Operator
from planner.numeric import Num, where

LEAST: Final = 2.0**20
"""Elements from which a tensor goes (``min_offloaded_tensor_size``). [element]"""

Place = tuple[str, str]
"""An operator, and whether the tensors are what it ``kept`` or what it ``saved``."""

INPUTS: Final[Mapping[str, tuple[Place, ...]]] = {
    "attn_norm": (("norm_0", "kept"),),
    "qkv_linear": (("norm_0", "saved"), ("latent_down", "saved"), ("latent_norm", "saved")),
    "core_attn": (("query_up", "saved"), ("key_value_up", "saved"), ("attention", "kept")),
    "attn_proj": (("attention", "kept"),),
    "mlp_norm": (("norm_1", "kept"),),
    "expert_fc1": (("permute", "saved"),),
    "moe_act": (("experts_in", "saved"),),
}
"""What the modules of Megatron-core save for backward while their offloading is on.

References
----------
.. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/attention.py``, ``transformer_layer.py`` and
   ``moe/experts.py``: the contexts of ``FineGrainedActivationOffloadingInterface``.
"""


def hosted_inputs(
    operators: Iterable[Operator], modules: tuple[str, ...], again: frozenset[str]
) -> tuple[Num, Num]:
    """Return the bytes of a layer that are copied to the host, and those of them that leave the device.

    Attention's result is copied with its inputs, and again as the input of the projection after it, without
    which it stays. What runs ``again`` was not saved.
    """
    known = {operator.name: operator for operator in operators}
    copied: Num = 0.0
    gone: dict[Place, Num] = {}
    for module in modules:
        for place in _places(module, known):
            name, kind = place
            operator = known[name]
            if kind == "saved" and operator.module in again:
                continue
            nbytes = _large(getattr(operator, kind))
            copied = copied + nbytes
            if place != ("attention", "kept") or "attn_proj" in modules:
                gone[place] = nbytes
    return copied, sum(gone.values(), 0.0)


def _places(module: str, known: Mapping[str, Operator]) -> list[Place]:
    """Return what a module saves of the operators that are there.

    Norms on heads keep what they were given, which then is not what attention gets; a norm that is computed
    in its product is no module of its own.
    """
    places, plain = list(INPUTS[module]), "qkv" in known
    if module == "core_attn" and plain:
        places.append(("qk_norm" if "qk_norm" in known else "qkv", "saved"))
    if module == "qkv_linear":
        places += [("qkv", "saved")] * ("qk_norm" in known)
        places += [("norm_0", "kept")] * _in_product(known, "norm_0")
    if module in ("attn_norm", "mlp_norm") and _in_product(known, INPUTS[module][0][0]):
        return []
    return [place for place in places if place[0] in known]


def _in_product(known: Mapping[str, Operator], name: str) -> bool:
    return name in known and known[name].module == IN_PRODUCT


def _large(nbytes: Num) -> Num:
    return where(nbytes >= 2.0 * LEAST, nbytes, 0.0 * nbytes)
