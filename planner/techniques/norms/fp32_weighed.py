"""Chains that multiply by the weight in fp32, as Gemma's in transformers, and keep what they normed so."""

from dataclasses import replace

from planner.techniques.norms import apart

ENTRY = replace(
    apart.ENTRY,
    name="fp32-weighed",
    cite="Transformers v5.24.0: models/gemma/modeling_gemma.py, GemmaRMSNorm",
    unfused_norm_bytes=6.0,
)
