"""All passes of a step, forward and backward."""

from planner.techniques.graphs.family import GraphScope

ENTRY = GraphScope(
    name="passes",
    cite="Megatron-LM d98e8a64: megatron/core/full_cuda_graph.py",
    whole=True,
)
