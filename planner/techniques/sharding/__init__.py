"""ZeRO stages, by name."""

from planner.registry import load_family
from planner.techniques.sharding.family import Sharding

SHARDINGS = load_family(__name__, Sharding)

__all__ = ["SHARDINGS", "Sharding"]
