"""How replicas on slow links keep together, by name."""

from planner.registry import load_family
from planner.techniques.sync.family import AXES, Sync

SYNCS = load_family(__name__, Sync)

__all__ = ["AXES", "SYNCS", "Sync"]
