"""Ways to pass the states of linear layers along a shared sequence, by name."""

import sys

from planner.registry import load_family
from planner.techniques.states.family import StateMethod

STATE_METHODS = load_family(sys.modules[__name__], StateMethod)

__all__ = ["STATE_METHODS", "StateMethod"]
