"""A layer norm that is a chain of a model's own code in fp32 (Cohere's in transformers)."""

from dataclasses import replace

from planner.techniques.norms import apart

ENTRY = replace(
    apart.ENTRY,
    name="fp32-layer-norm",
    cite="Transformers v5.24.0: models/cohere/modeling_cohere.py, CohereLayerNorm",
    unfused_norm_bytes=10.0,
    chains_layer_norm=True,
)
