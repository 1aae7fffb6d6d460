"""Number formats of a training step, by name."""

from __future__ import annotations

from collections.abc import Sequence

from planner.registry import load_family
from planner.techniques.precision.family import Precision

PRECISIONS = load_family(__name__, Precision)


def nearest_format(name: str, able: Sequence[str]) -> str:
    """Return the format of those ``able`` that comes nearest to a named one, the first where none does.

    Examples
    --------
    >>> nearest_format("nvfp4", ("bf16", "fp8")), nearest_format("mxfp8", ("fp16", "bf16"))
    ('fp8', 'bf16')
    """
    while name not in able and name in PRECISIONS:
        name = PRECISIONS[name].instead
    return name if name in able else next(iter(able), "")


__all__ = ["PRECISIONS", "Precision", "nearest_format"]
