"""Each layer's router, its norm, and what sorts tokens before experts."""

from planner.techniques.graphs.family import GraphScope

ENTRY = GraphScope(
    name="router",
    cite="Megatron-LM d98e8a64: megatron/core/transformer/transformer_layer.py, _te_cuda_graph_capture",
    modules=("router",),
    norms=("norm_1",),
    routes=True,
)
