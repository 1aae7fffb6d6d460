"""Ring attention: who sends keys and values round the ranks of a sequence, by name."""

from planner.registry import load_family
from planner.techniques.rings.family import RingAttention

RINGS = load_family(__name__, RingAttention)

__all__ = ["RINGS", "RingAttention"]
