"""Adapters and the linear layers that they sit on."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.adapters import ADAPTER_LIBRARIES


@dataclass(frozen=True)
class AdapterTraits:
    """Adapters and the linear layers that they sit on."""

    library: str = trait(
        "megatron",
        "Whose code puts adapters beside linear layers: NVIDIA's beside joined products, Hugging Face's "
        "(``peft``) beside each layer of transformers' models.",
        name="adapters",
        words=ADAPTER_LIBRARIES,
    )
    operator_fuser: bool = trait(
        False,
        "Whether Transformer Engine's operator fuser makes one kernel of an activation and the cast of its "
        "result to low bits, and the scale and sums of adapters part of their products.",
    )
    gathers_input: bool = trait(
        True,
        "Whether adapters of column-split layers gather their input for themselves where the layer's product "
        "hides its own gather; if not, that one is in the open, and serves both (Megatron-core's "
        "``tp_comm_overlap_disable_qkv``).",
        name="adapter_gathers_input",
    )
    regathers_input: bool = trait(
        False,
        "Whether they keep their part of that input alone, and gather it in each pass (Megatron-Bridge's "
        "``sequence_parallel_input_regather``).",
        name="adapter_regathers_input",
    )
    all_to_all: bool = trait(
        False,
        "Whether one all-to-all cuts what adapters of row-split layers make along the sequence, which is "
        "else gathered whole first (Megatron-Bridge's ``a2a_experimental``).",
        name="adapter_all_to_all",
    )
    dropout: bool = trait(
        False,
        "Whether dropout runs on the input of adapters.",
        name="adapter_dropout",
    )
    base_dtype: Literal["bf16", "fp32"] = trait(
        "bf16",
        "Numbers in which frozen weights rest that no method quantises (TRL loads ``float32`` unless told).",
    )
