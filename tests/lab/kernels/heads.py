"""Head sizes that an accelerator was not measured in, lent by one that runs the same kernel."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Final

from planner.calibrate.kernels.entries import Entry, plain
from planner.units import parse
from tests.lab.kernels.attention import MOST_MEASURED, backward_efficiency

LENDERS: Final = {"a100-80gb-sxm": "rtx-pro-6000-server", "b300": "gb300"}
"""Accelerators with few head sizes, and one that runs the same kernel on more."""

SHARES: Final = ("efficiency", "half_keys", "shared_half_keys", "half_queries_per_multiprocessor")
"""What is lent as a share of that of the head size that both have."""

KEPT: Final = ("sustained_ratio", "launch", "range", "backward_half_keys", "kernel")
"""What stays as it is at the head size that both have."""

Sizes = Mapping[str, Mapping[str, object]]
"""Entries of one data type by head size."""


def lent_heads(own: Sizes, lender: Sizes, name: str) -> dict[str, Entry]:
    """Return an entry for each head size that only the lender was measured in.

    Parameters
    ----------
    own, lender : Mapping
        What was fitted, in bf16.
    name : str
        The lender.
    """
    if MOST_MEASURED not in own or MOST_MEASURED not in lender:
        return {}
    base, ground = own[MOST_MEASURED], lender[MOST_MEASURED]
    entries: dict[str, Entry] = {}
    for size in sorted(set(lender) - set(own), key=int):
        here = {field: _share(lender[size][field], ground[field]) * _plain(base[field]) for field in SHARES}
        backward = backward_efficiency(
            size, _plain(base["backward_efficiency"]), here["efficiency"], _plain(base["efficiency"])
        )
        entries[size] = {
            **{field: plain(value) for field, value in here.items()},
            **{field: deepcopy(base[field]) for field in KEPT},
            "backward_efficiency": plain(backward),
            "lender": name,
            "standing": "borrowed",
        }
    return entries


def _plain(value: object) -> float:
    return parse(value, "-")


def _share(one: object, other: object) -> float:
    return _plain(one) / _plain(other) if _plain(other) else 1.0
