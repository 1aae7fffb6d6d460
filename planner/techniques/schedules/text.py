"""Orders of passes as text: what each rank runs, in PyTorch's compute-only form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner.techniques.schedules.family import Kind, Orders, Pass

LETTERS: Final[dict[Kind, str]] = {"F": "F", "B": "I", "W": "W", "BW": "B"}
"""PyTorch's letters: its B is a whole backward."""

KINDS: Final[dict[str, Kind]] = {letter: kind for kind, letter in LETTERS.items()}

ACTION: Final = re.compile(r"(\d{1,6})([FIWB])(\d{1,6})")


def order_lines(orders: Orders) -> list[str]:
    """Return an order as PyTorch's pipelining reads it, a line for each rank: stage, kind, micro-batch.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/pipelining/schedules.py``, ``PipelineScheduleMulti._load_csv``.

    Examples
    --------
    >>> order_lines(((Pass("F", 0, 0), Pass("BW", 0, 0)),))
    ['0F0,0B0']
    """
    return [
        ",".join(f"{chunk}{LETTERS[kind]}{microbatch}" for kind, chunk, microbatch in passes)
        for passes in orders
    ]


def read_order(lines: Sequence[str], ranks: Sequence[int], microbatches: int) -> Orders:
    """Return what `order_lines` wrote, for chunks on these ranks.

    Raises `ValueError` if a pass cannot be read, is another rank's, comes twice or is missing.
    """
    orders = tuple(tuple(map(_action, line.split(","))) for line in lines)
    if len(orders) != max(ranks) + 1:
        raise ValueError(f"{len(orders)} ranks")
    ran: set[tuple[str, int, int]] = set()
    for rank, order in enumerate(orders):
        for kind, chunk, microbatch in order:
            if chunk >= len(ranks) or ranks[chunk] != rank or microbatch >= microbatches:
                raise ValueError(f"{chunk}{LETTERS[kind]}{microbatch} on rank {rank}")
            for part in kind:
                if (part, chunk, microbatch) in ran:
                    raise ValueError(f"{chunk}{LETTERS[kind]}{microbatch} twice")
                ran.add((part, chunk, microbatch))
    if missing := 3 * len(ranks) * microbatches - len(ran):
        raise ValueError(f"{missing} {'pass' if missing == 1 else 'passes'} missing")
    return orders


def _action(text: str) -> Pass:
    found = ACTION.fullmatch(text.strip())
    if found is None:
        raise ValueError(repr(text[:20]))
    return Pass(KINDS[found[2]], int(found[1]), int(found[3]))
