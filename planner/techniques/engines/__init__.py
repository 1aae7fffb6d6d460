"""Engines: who keeps weights, gradients and optimizer states between passes, by name."""

from __future__ import annotations

import sys

from planner.registry import load_family
from planner.techniques.engines._family import Engine

ENGINES = load_family(sys.modules[__name__], Engine)

__all__ = ["ENGINES", "Engine"]
