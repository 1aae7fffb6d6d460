"""PEFT in LLaMA-Factory, which casts all that learns to fp32."""

from dataclasses import replace

from planner.techniques.adapters import peft

ENTRY = replace(
    peft.ENTRY,
    name="llama-factory",
    cite="https://github.com/hiyouga/LLaMA-Factory, src/llamafactory/model/adapter.py, "
    "cast_trainable_params_to_fp32",
    casts_copies=True,
)
