"""What a calibration should not be believed on: runs and shares that no public site has shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from planner.calibrate.sites.fit import SiteFit

OFF: Final = 2.0
"""Measured over predicted time, or the reverse, that no public run comes near: 1.6 of 875. [-]"""

PUBLIC: Final[Mapping[str, tuple[float, float]]] = {
    "compute": (0.88, 1.07),
    "network": (0.05, 1.3),
    "scale-up": (0.61, 1.9),
}
"""Least and largest share of 30 clusters of the public tables, each fitted by itself. [-]"""

BEYOND: Final = 1.25
"""Ratio to the nearest public share above which a share is called far from all of them. [-]"""

NAMED: Final = 8
"""Rows that are named one by one. [-]"""


def odd_rows(result: SiteFit) -> dict[str, float]:
    """Return measured over predicted time of the runs that were far off before the fit, by their row. [-]"""
    ratios = {
        run.run.id: math.exp(-float(error)) for run, error in zip(result.used, result.before, strict=True)
    }
    return {name: ratio for name, ratio in ratios.items() if not 1 / OFF <= ratio <= OFF}


def far_factors(result: SiteFit) -> dict[str, tuple[float, float]]:
    """Return the range of the public sites of each factor that is far outside of it."""
    found = {}
    for factor in result.factors:
        least, largest = PUBLIC[factor.name]
        if not least / BEYOND <= factor.value <= largest * BEYOND:
            found[factor.name] = (least, largest)
    return found


def doubts(result: SiteFit) -> list[str]:
    """Return warnings about a fit, with the rows that give rise to them."""
    values = {factor.name: factor.value for factor in result.factors}
    told = [
        f"{name} {values[name]:.3g} is far from what any public site shows, {least:g} to {largest:g}: "
        "likely a wrong unit, or another model than the rows name"
        for name, (least, largest) in far_factors(result).items()
    ]
    odd = odd_rows(result)
    if odd:
        told.append(
            f"{_counted(len(odd), len(result.used))} more than {OFF:g} times off what the profile says, "
            f"which no public run is: likely a wrong unit, or another model than named ({_named(odd)})"
        )
    return told


def _counted(odd: int, runs: int) -> str:
    return f"{odd} of {runs} runs {'is' if odd == 1 else 'are'}"


def _named(odd: Mapping[str, float]) -> str:
    shown = [f"{name}: {_times(ratio)}" for name, ratio in list(odd.items())[:NAMED]]
    return ", ".join(shown) + (f" and {len(odd) - NAMED} more" if len(odd) > NAMED else "")


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as slow" if ratio > 1 else f"{1 / ratio:.3g} times as fast"
