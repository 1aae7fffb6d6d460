"""Part of the product after them: Transformer Engine's LayerNormLinear and LayerNormMLP."""

from planner.techniques.norms.family import NormCode

ENTRY = NormCode(
    name="in-product",
    cite="Megatron-LM d98e8a64: megatron/core/extensions/transformer_engine.py, "
    "TELayerNormColumnParallelLinear",
    in_product=True,
)
