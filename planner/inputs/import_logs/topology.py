"""The text of ``nvidia-smi topo -m``: what joins the GPUs of a node, and which port is near to which GPU."""

from __future__ import annotations

import re
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem

_ESCAPE: Final = re.compile(r"\x1b\[[\d;]*m")
_WORD: Final = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS")
_DEVICE: Final = re.compile(r"GPU\d+|NIC\d+|mlx\d+_(?:bond_)?\d+|\w+_\d+")
_LEGEND: Final = re.compile(r"^\s*(NIC\d+): (\S+)\s*$", re.MULTILINE)
_NEAR: Final = ("PIX", "PXB")


@dataclass(frozen=True)
class Topology:
    """A node as its driver sees it."""

    gpus: tuple[str, ...]
    """``GPU0`` and so on."""
    nics: tuple[str, ...]
    """Ports, by their own names where the text has them."""
    links: dict[tuple[str, str], str]
    """Two devices to the word between them: ``NV18``, ``PIX``, ``SYS`` ..."""

    @property
    def pairs(self) -> list[str]:
        """The word between every two GPUs."""
        return [
            self.links[one, other]
            for number, one in enumerate(self.gpus)
            for other in self.gpus[number + 1 :]
        ]

    @property
    def nvlinks(self) -> int:
        """Bonded NVLinks between every two GPUs, 0 where some pair has none. [-]"""
        counts = [int(word[2:]) if word.startswith("NV") else 0 for word in self.pairs]
        return min(counts, default=0)

    @property
    def even(self) -> bool:
        """Whether every two GPUs are joined alike."""
        return len(set(self.pairs)) <= 1

    @property
    def near_nics(self) -> dict[str, tuple[str, ...]]:
        """Ports that each GPU reaches without crossing the processor."""
        return {
            gpu: tuple(nic for nic in self.nics if self.links.get((gpu, nic)) in _NEAR) for gpu in self.gpus
        }


def read_topology(text: str, where: str) -> Topology:
    """Return the matrix of a node.

    Raises `InputError` if a row is cut off or has a word that the matrix does not know.
    """
    lines = [_ESCAPE.sub("", line) for line in text.splitlines()]
    start = next(
        (n for n, line in enumerate(lines) if re.match(r"\s*GPU0\s", line) and "X" not in line.split()), None
    )
    if start is None:
        raise InputError(Problem(where, "no heading with GPU0", "the text of nvidia-smi topo -m"))
    devices = _heading(lines[start])
    legend = dict(_LEGEND.findall("\n".join(lines)))
    links: dict[tuple[str, str], str] = {}
    problems = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        words = line.split()
        if not words or words[0] not in devices:
            continue
        row = words[1 : len(devices) + 1]
        if len(row) < len(devices) or not all(_WORD.fullmatch(word) for word in row):
            problems.append(
                Problem(
                    f"{where}: line {number}",
                    f"{words[0]} with {line.strip()[:60]!r}",
                    f"{len(devices)} words such as NV18, PIX or SYS",
                )
            )
            continue
        links |= {(words[0], other): word for other, word in zip(devices, row, strict=True)}
    gpus = [name for name in devices if name.startswith("GPU")]
    missing = [name for name in gpus if (name, name) not in links]
    if missing and not problems:
        problems.append(Problem(where, f"no row of {', '.join(missing)}", "a row for each GPU"))
    if problems:
        raise InputError(problems)
    named = {name: legend.get(name, name) for name in devices}
    return Topology(
        gpus=tuple(gpus),
        nics=tuple(named[name] for name in devices if name not in gpus),
        links={(named[one], named[other]): word for (one, other), word in links.items()},
    )


def _heading(line: str) -> list[str]:
    words: list[str] = []
    for word in line.split():
        if not _DEVICE.fullmatch(word):
            break
        words.append(word)
    return words
