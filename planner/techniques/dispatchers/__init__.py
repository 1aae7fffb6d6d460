"""Dispatchers: who sends tokens to their experts, by name."""

from planner.registry import load_family
from planner.techniques.dispatchers.family import Dispatcher

DISPATCHERS = load_family(__name__, Dispatcher)

__all__ = ["DISPATCHERS", "Dispatcher"]
