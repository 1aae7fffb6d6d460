"""Each layer's attention, and all that comes before the dispatcher."""

from planner.techniques.graphs.family import GraphScope

ENTRY = GraphScope(
    name="attention",
    cite="Megatron-LM d98e8a64: megatron/core/transformer/transformer_layer.py, _te_cuda_graph_capture",
    modules=("qkv", "mla_up_proj", "core_attn", "attn_out", "router", "mixer", "linear_attn"),
    norms=("norm_0", "norm_1"),
    routes=True,
    attends=True,
)
