"""What files for torchtitan say beside a plan's degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Choice:
    """Switches of a run.

    Parameters
    ----------
    compiled : bool
        Whether layers are compiled.
    async_tp : bool
        Whether tensor-parallel messages go in pieces beside their products.
    float8_scales : str
        ``rows`` or ``tensor``, where the precision is fp8.
    loss_chunks : int
        Parts of a micro-batch at head and loss.
    """

    compiled: bool
    async_tp: bool = False
    float8_scales: str = "rows"
    loss_chunks: int = 1


RECIPES: Final = {"rows": "rowwise", "tensor": "tensorwise"}
"""torchao's names of recipes."""
