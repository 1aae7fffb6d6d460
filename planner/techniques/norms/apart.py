"""Modules of their own, as in transformers' Llama: a chain keeps an fp32 copy of its input."""

from planner.techniques.norms.family import NormCode

ENTRY = NormCode(
    name="apart",
    cite="Transformers v5.24.0: models/llama/modeling_llama.py, LlamaRMSNorm",
)
