"""Routers: whose code chooses a token's experts, by name."""

from planner.registry import load_family
from planner.techniques.routers.family import RouterCode

ROUTERS = load_family(__name__, RouterCode)

__all__ = ["ROUTERS", "RouterCode"]
