"""Megatron-core's without them (`moe_router_fusion` off): chains of PyTorch's own kernels."""

from planner.techniques.routers.family import RouterCode

ENTRY = RouterCode(
    name="eager",
    cite="Megatron-LM d98e8a64: megatron/core/transformer/moe/moe_utils.py, topk_routing_with_score_function",
    chained=True,
)
