"""Engines: who keeps weights, gradients and optimizer states between passes, by name."""

import sys

from planner.registry import load_family
from planner.techniques.engines.family import Engine

SHARED = ("rounds",)
"""Modules that members share, and no members themselves."""

ENGINES = load_family(sys.modules[__name__], Engine)

__all__ = ["ENGINES", "Engine"]
