"""Tensor parallelism: whose layers cut products and the sequence between them, by name."""

from planner.registry import load_family
from planner.techniques.tensor.family import TensorLibrary

TENSOR_LIBRARIES = load_family(__name__, TensorLibrary)

__all__ = ["TENSOR_LIBRARIES", "TensorLibrary"]
