"""Losses: how head and cross entropy run, by name."""

from planner.registry import load_family
from planner.techniques.losses.family import Loss

LOSSES = load_family(__name__, Loss)

__all__ = ["LOSSES", "Loss"]
