"""Ways to pass the states of linear layers along a shared sequence, by name."""

from planner.registry import load_family
from planner.techniques.states.family import StateMethod

STATE_METHODS = load_family(__name__, StateMethod)

__all__ = ["STATE_METHODS", "StateMethod"]
