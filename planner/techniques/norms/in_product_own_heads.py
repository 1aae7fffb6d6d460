"""Part of the product after them, but for queries and keys: MiniMax-M2 on Bridge norms them in fp32."""

from dataclasses import replace

from planner.techniques.norms import in_product

ENTRY = replace(
    in_product.ENTRY,
    name="in-product-own-heads",
    cite="Megatron-Bridge 067f987d: models/minimax_m2/minimax_m2_provider.py, _FullDimRMSNorm",
    chains_head_norms=True,
)
