"""Activation checkpointing: what a backward pass runs again of a layer that is recomputed whole, by name."""

from planner.registry import load_family
from planner.techniques.checkpointing.family import Checkpointing

CHECKPOINTING = load_family(__name__, Checkpointing)

__all__ = ["CHECKPOINTING", "Checkpointing"]
