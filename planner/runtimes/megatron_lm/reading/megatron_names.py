"""Megatron-LM's arguments as names of a YAML or with underscores, and as its command line has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec

NAMES: Final = {"fp8": "--fp8-format", "fp4": "--fp4-format", "apply_layernorm_1p": "--apply-layernorm-1p"}
"""Names that the command line spells otherwise (megatron/training/arguments.py)."""

OFF: Final = {
    "add_bias_linear": "--disable-bias-linear",
    "apply_rope_fusion": "--no-rope-fusion",
    "bias_swiglu_fusion": "--no-bias-swiglu-fusion",
    "bias_gelu_fusion": "--no-bias-gelu-fusion",
    "bias_dropout_fusion": "--no-bias-dropout-fusion",
    "bias_activation_fusion": "--no-bias-swiglu-fusion",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "masked_softmax_fusion": "--no-masked-softmax-fusion",
    "persist_layer_norm": "--no-persist-layer-norm",
}
"""Arguments that are on unless a flag switches them off."""

QUIET: Final = frozenset(OFF) - {"add_bias_linear"}


def flags_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return arguments as flags with their values; what is off or null is left out.

    Examples
    --------
    >>> flags_of({"tensor_model_parallel_size": 2, "bf16": True, "fp16": False, "add_bias_linear": False})
    {'--tensor-model-parallel-size': '2', '--bf16': '', '--disable-bias-linear': ''}
    """
    flags: dict[str, str] = {}
    for name, value in values.items():
        text = str(value).strip()
        if name in OFF:
            if text.lower() == "false":
                flags[OFF[name]] = ""
        elif value is not None and text.lower() not in ("false", "null", "none", ""):
            flag = name if name.startswith("--") else NAMES.get(name, f"--{name.replace('_', '-')}")
            words = value if isinstance(value, list) else [text]
            flags[flag] = "" if text.lower() == "true" else " ".join(map(str, words))
    return flags


def known_model(name: str | None) -> ModelSpec | None:
    """Return the model that a name or path means, None where it cannot be read."""
    try:
        return None if name is None else load_model(name)
    except InputError:
        return None


TE_LOSS: Final = (
    "--cross-entropy-fusion-impl te: priced as releases before 0.19 run it (loss=transformer-engine); "
    "Megatron-LM refuses it since, where native takes its place"
)
"""Megatron-LM core_v0.19.0, megatron/training/arguments.py, ``validate_args``; not in core_v0.18.0."""

BY_LENGTH: Final = (
    "--hybrid-context-parallel: the lengths that it serves are in the data; --seq-lens says them, and "
    "--max-tokens-per-rank what --max-seqlen-per-dp-cp-rank says"
)

UNDELAYED: Final = (
    "--overlap-moe-expert-parallel-comm without --delay-wgrad-compute: priced as with it, as all runs have it"
)
