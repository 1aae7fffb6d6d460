"""How replicas on slow links keep together, by name."""

import sys

from planner.registry import load_family
from planner.techniques.sync.family import AXES, Sync

SYNCS = load_family(sys.modules[__name__], Sync)

__all__ = ["AXES", "SYNCS", "Sync"]
