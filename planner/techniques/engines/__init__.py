"""Engines: who keeps weights, gradients and optimizer states between passes, by name."""

from planner.registry import load_family
from planner.techniques.engines.family import Engine

SHARED = ("rounds", "fetches", "zero_gradients")
"""Modules that members share, or other packages read, and no members themselves."""

ENGINES = load_family(__name__, Engine)

__all__ = ["ENGINES", "Engine"]
