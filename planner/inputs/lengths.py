"""Lengths of sequences, from a table or a law, and how they are packed to one length."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem, nearest
from planner.inputs.bounded import is_file, table_lines

Lengths = NDArray[np.int64]
"""Lengths of documents. [token]"""

MOST_LENGTH: Final = 2**27
"""The longest document that is taken, as `--seq-len` has it. [token]"""

MOST_DRAWN: Final = 20_000
"""Documents that are packed; of a longer table so many are drawn with a fixed seed. [-]"""

DRAWS: Final = 8192
"""Documents that are drawn from a law. [-]"""

LAW: Final = "lognormal:mean=8Ki,max=128Ki,seed=1"
"""How a law is written."""

SPREAD: Final = 1.0
"""Spread of the logarithm where a law does not say it: a choice, not a measurement. [-]"""

_SCALES: Final = {"k": 2**10, "ki": 2**10, "m": 2**20, "mi": 2**20}


def read_lengths(text: str, where: str = "--seq-lens") -> str:
    """Return a source of lengths in one spelling, after it was read: a law, or the path of a table.

    Raises `InputError` if there is no such file, no column ``length`` or no length in it, or the law is
    wrong.
    """
    said = text.strip()
    if said.partition(":")[0].strip().lower() == "lognormal":
        law = _law(said, where)
        return "lognormal:" + ",".join(f"{name}={value:.10g}" for name, value in law.items())
    path = Path(said).expanduser()
    if not is_file(path):
        raise InputError(Problem(where, repr(text), "a CSV file with the column `length`, or a law", LAW))
    _table(str(path.resolve()), _stamp(path), where)
    return str(path.resolve())


def lengths_of(source: str) -> Lengths:
    """Return the lengths of a source, as `read_lengths` spells it. [token]

    Examples
    --------
    >>> drawn = lengths_of("lognormal:mean=8192,max=131072,seed=1")
    >>> len(drawn), bool(abs(drawn.mean() / 8192 - 1) < 0.01), int(drawn.max())
    (8192, True, 131072)
    """
    if source.startswith("lognormal:"):
        return _drawn(source)
    return _table(source, _stamp(Path(source)), "seq_lens")


def _stamp(path: Path) -> tuple[int, int]:
    """Return what tells that a file has changed."""
    try:
        known = path.stat()
    except OSError as error:
        raise InputError(Problem("--seq-lens", repr(str(path)), f"a file ({error.strerror})")) from None
    return known.st_mtime_ns, known.st_size


def _number(text: str) -> float:
    letters = text.strip().lower().lstrip("0123456789.")
    digits = text.strip()[: len(text.strip()) - len(letters)]
    try:
        return float(digits) * (_SCALES[letters] if letters else 1)
    except (KeyError, ValueError):
        return math.nan


def _tokens(number: float) -> str:
    """Return a bound as people write it: lengths in binary thousands."""
    return f"{number / 2**20:g}Mi" if number >= 2**20 and number % 2**20 == 0 else f"{number:g}"


def _law(said: str, where: str) -> Mapping[str, float]:
    """Return the numbers of a law by name; every fault is told."""
    given = dict(part.partition("=")[::2] for part in said.partition(":")[2].split(",") if part.strip())
    words = {name.strip().lower(): value for name, value in given.items()}
    known = ("mean", "max", "seed", "sigma")
    faults = [
        Problem(where, repr(name), f"one of {', '.join(known)}, as in {LAW}", nearest(name, known))
        for name in words
        if name not in known
    ]
    found = {name: _number(words.get(name, "")) for name in ("mean", "max")}
    found |= {"seed": _number(words.get("seed", "1"))}
    sigma = words.get("sigma")
    found |= {} if sigma is None else {"sigma": _number(sigma)}
    for name, value in found.items():
        least = 0.0 if name == "seed" else 0.01 if name == "sigma" else 1.0
        most = 10.0 if name == "sigma" else 2.0**32 if name == "seed" else float(MOST_LENGTH)
        if not least <= value <= most:
            found_words = f"{name} {words[name]!r}" if name in words else f"no {name}"
            bound = _tokens(most) if name in ("mean", "max") else f"{most:,.10g}"
            range_words = f"{name}=N, a number from {least:g} to {bound}"
            faults.append(Problem(where, found_words, range_words, LAW))
    if not faults and found["mean"] > found["max"]:
        faults.append(Problem(where, f"mean {found['mean']:g}", f"at most the max of {found['max']:g}"))
    if faults:
        raise InputError(faults)
    return found


@lru_cache(maxsize=32)
def _drawn(source: str) -> Lengths:
    """Return lognormal lengths, cut at the longest, whose mean is the one asked for. [token]"""
    law = _law(source, "seq_lens")
    most, mean = law["max"], law["mean"]
    normal = np.random.default_rng(int(law["seed"])).standard_normal(DRAWS)
    shape = np.exp(law.get("sigma", SPREAD) * normal)
    low, high = 0.0, most / float(shape.min())
    for _ in range(80):
        middle = (low + high) / 2
        short = np.minimum(shape * middle, most).mean() < mean
        low, high = (middle, high) if short else (low, middle)
    found: Lengths = np.clip(np.rint(shape * high), 1, int(most)).astype(np.int64)
    return found


@lru_cache(maxsize=32)
def _table(source: str, stamp: tuple[int, int], where: str) -> Lengths:
    """Return the column ``length`` of a file that has not changed since ``stamp``. [token]"""
    faults: list[Problem] = []
    found: list[int] = []
    with table_lines(Path(source)) as lines:
        rows = csv.DictReader(lines)
        names = [name.strip() for name in rows.fieldnames or ()]
        if "length" not in names:
            near = nearest("length", names) if names else ""
            raise InputError(
                Problem(
                    f"{where} {source}", f"columns {', '.join(names) or 'none'}", "a column `length`", near
                )
            )
        rows.fieldnames = names
        for line, row in enumerate(rows, 2):
            value = _number(row["length"] or "")
            if 1 <= value <= MOST_LENGTH and value == int(value):
                found.append(int(value))
            elif len(faults) < 5:
                expected = f"a whole number from 1 to {MOST_LENGTH:,}"
                faults.append(Problem(f"{where} {source}, line {line}", repr(row["length"]), expected))
    if faults or not found:
        raise InputError(faults or Problem(f"{where} {source}", "no rows", "one length at least"))
    every = np.array(found, dtype=np.int64)
    if len(every) <= MOST_DRAWN:
        return every
    return np.random.default_rng(0).choice(every, MOST_DRAWN, replace=False)


def longest(source: str) -> int:
    """Return the longest of a source's lengths. [token]"""
    return int(lengths_of(source).max())


def best_fit_packs(lengths: Lengths, capacity: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pack documents into sequences: longest first, each where it leaves the least room; return two arrays.

    Documents longer than a sequence are cut into whole sequences and a rest.

    Parameters
    ----------
    lengths : array
        Lengths of the documents. [token]
    capacity : int
        Tokens of a sequence. [token]

    Returns
    -------
    (array, array)
        Tokens of each sequence [token], and the sum of the squares of its documents' lengths [token^2].

    References
    ----------
    .. [1] H. Ding et al., "Fewer Truncations Improve Language Modeling," arXiv:2404.10830, 2024, sec. 3
       (best-fit packing).

    Examples
    --------
    >>> [part.tolist() for part in best_fit_packs(np.array([6, 4, 5, 5, 25]), 10)]
    [[10.0, 10.0, 10.0, 10.0, 5.0], [100.0, 100.0, 52.0, 50.0, 25.0]]
    """
    rests = lengths % capacity
    whole = int((lengths // capacity).sum())
    tokens, squares = [float(capacity)] * whole, [float(capacity) ** 2] * whole
    rooms: list[int] = []
    places: dict[int, list[int]] = {}
    for size in np.sort(rests[rests > 0])[::-1].tolist():
        at = bisect_left(rooms, size)
        if at < len(rooms):
            room = rooms.pop(at)
            pack = places[room].pop()
        else:
            room, pack = capacity, len(tokens)
            tokens.append(0.0)
            squares.append(0.0)
        tokens[pack] += size
        squares[pack] += float(size) ** 2
        if room > size:
            insort(rooms, room - size)
            places.setdefault(room - size, []).append(pack)
    return np.array(tokens), np.array(squares)


@dataclass(frozen=True, eq=False)
class PackedLengths:
    """Documents packed into sequences of one length."""

    lengths: Lengths
    """Documents, none longer than a sequence. [token]"""
    capacity: int
    """Tokens of a sequence. [token]"""
    tokens: NDArray[np.float64]
    squares: NDArray[np.float64]
    """Of each sequence: its tokens, and the sum of squares of its documents' lengths. [token], [token^2]"""

    @cached_property
    def filled(self) -> float:
        """Share of the sequences' tokens that documents fill. [-]"""
        return float(self.tokens.sum() / (len(self.tokens) * self.capacity))

    @cached_property
    def attended(self) -> float:
        """Length of equal documents, one after the other, whose attention costs as much. [token]"""
        return float(self.squares.sum() / (len(self.tokens) * self.capacity))

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """Attention of each sequence over the mean. [-]"""
        found: NDArray[np.float64] = self.squares / self.squares.mean()
        return found

    @property
    def equal(self) -> bool:
        """Whether all sequences cost the same, but for rounding."""
        return bool(np.ptp(self.costs) < 1e-9)


def packed(source: str, capacity: int) -> PackedLengths:
    """Return the documents of a source, packed to sequences of ``capacity`` tokens."""
    stamp = (0, 0) if source.startswith("lognormal:") else _stamp(Path(source))
    return _packed(source, capacity, stamp)


@lru_cache(maxsize=64)
def _packed(source: str, capacity: int, stamp: tuple[int, int]) -> PackedLengths:
    lengths = lengths_of(source)
    whole = np.full(int((lengths // capacity).sum()), capacity, dtype=np.int64)
    rests = lengths % capacity
    cut: Lengths = np.concatenate([whole, rests[rests > 0]])
    return PackedLengths(cut, capacity, *best_fit_packs(lengths, capacity))
