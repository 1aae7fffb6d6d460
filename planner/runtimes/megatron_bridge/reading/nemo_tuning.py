"""What a fine-tuning configuration of NeMo 1.0 says beside a training's: adapters, and its data's length.

References
----------
.. [1] NeMo 1.23, examples/nlp/language_modeling/tuning/conf/megatron_gpt_finetuning_config.yaml, and
   nemo/collections/nlp/parts/peft_config.py, ``LoraPEFTConfig``: the layers of each name, and the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.libraries.reading.adapters import ORDER, say_dropout

PLACE: Final = "model.peft."
LORA: Final = f"{PLACE}lora_tuning."
TARGETS: Final = {
    "attention_qkv": ("qkv",), "attention_dense": ("proj",), "mlp_fc1": ("fc1",), "mlp_fc2": ("fc2",),
    "attention": ("qkv", "proj"), "mlp": ("fc1", "fc2"), "all": ORDER,
}  # fmt: skip
USUAL: Final = ("attention_qkv",)
RANK: Final = 32
LENGTH: Final = "model.data.train_ds.max_seq_length"


def say_tuning(sheet: Sheet, model: Mapping[str, Any]) -> None:
    """Say adapters and the length that data are cut to; adapters of another kind are a fault [1]_."""
    _length(sheet, model)
    section = model.get("peft")
    scheme = str(section.get("peft_scheme")) if isinstance(section, Mapping) else "None"
    if scheme.lower() in ("none", "null", ""):
        return
    if scheme not in ("lora", "qlora"):
        sheet.instead[f"{PLACE}peft_scheme"] = "method"
        sheet.fault(f"{PLACE}peft_scheme", scheme[:40], "lora, qlora or none; or --method for the nearest")
        return
    inner = section.get("lora_tuning") if isinstance(section, Mapping) else None
    said = inner if isinstance(inner, Mapping) else {}
    sheet.say("method", scheme, f"{PLACE}peft_scheme")
    sheet.say("lora_rank", said.get("adapter_dim") or RANK, f"{LORA}adapter_dim")
    sheet.values = {**sheet.values, f"{LORA}adapter_dropout": said.get("adapter_dropout")}
    say_dropout(sheet, f"{LORA}adapter_dropout", 0.0)
    words = said.get("target_modules") or USUAL
    names = [str(word) for word in words] if isinstance(words, list | tuple) else [str(words)]
    if other := [name for name in names if name not in TARGETS]:
        sheet.instead[f"{LORA}target_modules"] = "lora_targets"
        sheet.fault(f"{LORA}target_modules", ", ".join(other)[:60], f"some of {', '.join(TARGETS)}")
    layers = {layer for name in names for layer in TARGETS.get(name, ())}
    if layers and layers != {*ORDER}:
        sheet.say("lora_targets", "+".join(name for name in ORDER if name in layers), f"{LORA}target_modules")
    if said.get("layer_selection") is not None:
        sheet.notes.append(f"{LORA}layer_selection: priced with adapters in every layer")


def _length(sheet: Sheet, model: Mapping[str, Any]) -> None:
    data = model.get("data")
    train = data.get("train_ds") if isinstance(data, Mapping) else None
    size = train.get("max_seq_length") if isinstance(train, Mapping) else None
    if type(size) is int and size > 0:
        sheet.say("seq_len", size, LENGTH)
