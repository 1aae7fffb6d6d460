"""Environment variables that the program reads."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "PLANNER_"
"""Before a setting's name in capitals."""
DEBUG: Final = f"{PREFIX}DEBUG"
"""Asks for the traceback of an internal error."""
