"""Hugging Face's PEFT, beside each linear layer of transformers' models."""

from planner.techniques.adapters.family import AdapterLibrary

ENTRY = AdapterLibrary(
    name="peft",
    cite="PEFT 5d602fdb: peft/tuners/tuners_utils.py, cast_adapter_dtype; peft/tuners/lora/layer.py",
    separate=True,
)
