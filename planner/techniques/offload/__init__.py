"""What is kept in host memory, by name."""

from planner.registry import load_family
from planner.techniques.offload.family import Offload

OFFLOADS = load_family(__name__, Offload)

HOSTED = OFFLOADS["activations"]
"""Saved tensors of some layers, a number that a search counts."""

__all__ = ["HOSTED", "OFFLOADS", "Offload"]
