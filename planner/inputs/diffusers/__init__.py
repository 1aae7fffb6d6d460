"""Diffusion transformers of the library diffusers, one family in each file, by the class that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.inputs.diffusers.family import DiffusersFamily
from planner.registry import load_family

FAMILIES: Final[Mapping[str, DiffusersFamily]] = load_family(__name__, DiffusersFamily)

__all__ = ["FAMILIES", "DiffusersFamily"]
