"""CUDA graphs: what of a step the host launches as one, by name."""

from planner.registry import load_family
from planner.techniques.graphs.family import NO_GRAPHS, GraphScope

GRAPHS = load_family(__name__, GraphScope)

__all__ = ["GRAPHS", "NO_GRAPHS", "GraphScope"]
