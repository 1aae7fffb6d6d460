"""The fields that every entry of a curve file has."""

from __future__ import annotations

from planner.calibrate.kernels.fit import Fit
from planner.numeric import Column

Entry = dict[str, object]


def plain(value: float) -> str:
    """Return a number as text with four figures."""
    return f"{value:.4g}"


def microseconds(seconds: float) -> str:
    """Return a time as text in microseconds."""
    return f"{seconds * 1e6:.4g} us"


def percent(share: float) -> str:
    """Return a share as text in percent."""
    return f"{100 * share:.1f}%"


def size_range(sizes: Column) -> list[float]:
    """Return the smallest and the largest size, to four figures."""
    return [float(f"{size:.4g}") if size % 1 else int(size) for size in (sizes.min(), sizes.max())]


def accuracy(fitted: Fit, backend: str) -> Entry:
    """Fields that say what was fitted and how well it holds."""
    return {
        "rows": fitted.rows,
        "mean_error": percent(fitted.mean_error),
        "p90_error": percent(fitted.p90_error),
        "held_out_error": percent(fitted.held_out_error),
        "held_out_p90_error": percent(fitted.held_out_p90_error),
        "naive_error": percent(fitted.naive_error),
        "backend": backend,
        "standing": "fitted",
    }
