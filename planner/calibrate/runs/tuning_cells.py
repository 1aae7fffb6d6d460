"""Readers of the columns of a run table that say what a run fine-tunes, and on which documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planner.inputs.workload import adapted_groups
from planner.techniques.methods import METHODS


def method_cell(text: str) -> str:
    """Return the method that a cell names.

    Examples
    --------
    >>> method_cell("LoRA")
    'lora'
    """
    known = {name: method.name for method in METHODS.values() for name in (method.name, *method.aliases)}
    return known[text.lower()]


def targets_cell(text: str) -> str:
    """Return a cell that names adapted linear layers, as it stands."""
    adapted_groups(text)
    return text


def count_cell(text: str) -> int:
    """Return a rank or a length that a cell names. [element]"""
    number = float(text)
    if number != int(number) or not 1 <= number <= MOST_IN_A_CELL:
        raise ValueError(text)
    return int(number)


MOST_IN_A_CELL: Final = 10**9
"""Above any rank or length of a document. [element]"""

TUNING_CELLS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "method": (method_cell, "full, lora or qlora"),
    "lora_rank": (count_cell, "a whole number above 0"),
    "lora_targets": (targets_cell, "adapted linear layers, such as linear_qkv+linear_proj, or all"),
    "document_tokens": (count_cell, "a whole number above 0"),
}
"""Column to its reader and what it accepts."""
