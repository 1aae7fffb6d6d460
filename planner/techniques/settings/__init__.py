"""Settings of training frameworks that decide time or memory, by name."""

from planner.registry import load_family
from planner.techniques.settings.family import Setting

SETTINGS = load_family(__name__, Setting)

__all__ = ["SETTINGS", "Setting"]
