"""Hugging Face nanotron."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._era import Era

NANOTRON: Final = Era("nanotron", r"nanotron", "nanotron", "Hugging Face nanotron")
