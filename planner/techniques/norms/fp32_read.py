"""One kernel that reads a copy of its input in fp32, and keeps that: InternEvo's, OLMo's in transformers."""

from dataclasses import replace

from planner.techniques.norms import apart

ENTRY = replace(
    apart.ENTRY,
    name="fp32-read",
    cite="Transformers v5.24.0: models/olmo/modeling_olmo.py, OlmoLayerNorm",
    reads_fp32=True,
)
