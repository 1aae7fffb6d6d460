"""Each dense feed-forward, with its norm."""

from planner.techniques.graphs.family import GraphScope

ENTRY = GraphScope(
    name="mlp",
    cite="Megatron-LM d98e8a64: megatron/core/transformer/transformer_layer.py, _te_cuda_graph_capture",
    modules=("mlp",),
    norms=("norm_1",),
)
