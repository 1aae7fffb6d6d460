"""Allocators of device memory: what they keep beside the tensors, by name."""

from planner.registry import load_family
from planner.techniques.allocators.family import Allocator

ALLOCATORS = load_family(__name__, Allocator)

__all__ = ["ALLOCATORS", "Allocator"]
