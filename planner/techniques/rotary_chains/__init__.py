"""Rotary embeddings that are a chain of operators: how one turns, and what it keeps, by name."""

from planner.registry import load_family
from planner.techniques.rotary_chains.family import RotaryChain

ROTARY_CHAINS = load_family(__name__, RotaryChain)

__all__ = ["ROTARY_CHAINS", "RotaryChain"]
