"""What the linear layers of a model are called in its checkpoints' code, beside which adapters stand.

References
----------
.. [1] Hugging Face, Transformers v5.24, ``models/<type>/modeling_<type>.py`` of dbrx, phi3, gpt2 and others.
.. [2] The code beside the checkpoints of zai-org/chatglm2-6b, chatglm3-6b and glm-4-9b
   (``modeling_chatglm.py``), internlm/internlm2-7b, baichuan-inc/Baichuan-7B and Qwen/Qwen-7B.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.shipped import data_folder, names_and_aliases
from planner.inputs.workload import Target, Workload
from planner.rules import Rule
from planner.runtimes.hub.types import REGULAR, HubType

Names = Mapping[str, tuple[str, ...]]

LATENT: Final = ("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
"""Linear layers of latent attention's queries, keys and values."""

_FUSED: Final[Names] = {
    "qkv": ("query_key_value",), "proj": ("dense",), "fc1": ("dense_h_to_4h",), "fc2": ("dense_4h_to_h",),
}  # fmt: skip
_PHI3: Final[Names] = {**REGULAR, "qkv": ("qkv_proj",), "fc1": ("gate_up_proj",)}

OWN: Final[Mapping[str, Names]] = {
    **dict.fromkeys(("chatglm", "glm-4-9b"), _FUSED),
    "glm-4-9b-0414": {**REGULAR, "fc1": ("gate_up_proj",)},
    "dbrx": {"qkv": ("Wqkv",), "proj": ("out_proj",)},
    **dict.fromkeys(("phi3-", "phi4"), _PHI3),
    "internlm2-": {"qkv": ("wqkv",), "proj": ("wo",), "fc1": ("w1", "w3"), "fc2": ("w2",)},
    "baichuan-": {**REGULAR, "qkv": ("W_pack",)},
    "qwen-": {"qkv": ("c_attn",), "fc1": ("w1", "w2")},
    **{word: {} for word in ("gpt2", "gpt3-", "distilgpt2", "megatron-")},
}
"""Beginnings of names to those of linear layers, where the checkpoints are not of the type that is written.

A group that shares its name is absent.
"""


def adapted_names(model: ModelSpec, kind: str | None, types: Mapping[str, HubType]) -> Names:
    """Return the linear layers of each group that adapters may be told to stand beside.

    Parameters
    ----------
    model : ModelSpec
        The model.
    kind : str, optional
        Its ``model_type``, where files are written for one.
    types : mapping
        Types whose records name their layers.

    Returns
    -------
    mapping
        Group to names; nothing where they are not known, or share one.
    """
    begun = [word for word in OWN if model.name.startswith(word)]
    if begun:
        return OWN[max(begun, key=len)]
    if kind is not None and kind in types:
        return types[kind].adapted
    if kind == "gpt2":
        return {}
    if isinstance(model.blocks[model.layers[0]].mixer, LatentAttention):
        return {**REGULAR, "qkv": LATENT}
    known = kind is not None or model.name in names_and_aliases(data_folder("models_zoo"))
    return REGULAR if known else {}


def named_rule(model: ModelSpec, work: Workload, names: Names) -> Rule:
    """Return the rule that the adapted groups of layers have names of their own."""
    wanted: tuple[Target, ...] = () if work.method == "full" else work.lora_targets or ()
    absent = [group for group in wanted if group not in names]
    nearest = "+".join(group for group in wanted if group in names) or "all"
    return Rule(
        "adapted-layers-are-named",
        not absent,
        lambda: (
            f"lora targets {'+'.join(absent)} of {model.name}",
            f"{' or '.join((*names, 'all'))}: others share a name there, have none, or are not in our files",
            f"--lora-targets {nearest}",
        ),
    )
