"""The measured-run table: a CSV row for each training run that somebody really made becomes a `Run`.

A fault belongs to its row and column and never spoils another row. The table streams: a million rows are read
one at a time.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from planner.calibrate.runs.blanks import plain_number, says_nothing
from planner.calibrate.runs.columns import RunFigures, RunLayout, RunModel, RunSource
from planner.calibrate.runs.tuning_cells import TUNING_CELLS
from planner.dataclasses import dataclass, field, fields, replace
from planner.errors import InputError, Problem, nearest

NEEDED: Final = ("id", "gpu", "num_gpus", "framework")
"""Columns without which no row can be priced; any other may be absent and is then blank in each row."""
OPTIONAL: Final = ("fused_norm", "memory_kind", "mark", "release", *TUNING_CELLS)
"""Columns that a table may leave out without a word."""

OPEN_QUOTE: Final = "a quote that stays open over {lines} lines"
"""What is told of cells that go on; their lines are then read one by one."""

LARGEST: Final = 10**12
"""Above any count of a training run. [-]"""


@dataclass(frozen=True)
class Run(RunFigures, RunLayout, RunModel, RunSource):
    """One measured training run: the table's columns by name, None where blank, and the line it stands on.

    ``docs/reference/run-table.md`` has each column's meaning and unit.
    """

    fused_norm: int | None = None
    method: str = ""
    lora_rank: int | None = None
    lora_targets: str = ""
    document_tokens: int | None = None
    release: str = ""

    def with_values(self, values: Mapping[str, Any]) -> Run:
        """Return the run with columns changed."""
        return replace(self, **values) if values else self


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one row, so that it is told, counted and not priced."""

    line: int
    id: str
    column: str
    found: str
    expected: str
    hint: str = ""

    @property
    def reason(self) -> str:
        """The fault in one sentence."""
        near = f"; nearest: {self.hint}" if self.hint else ""
        return f"row {self.line}, column {self.column}: found {self.found}; expected {self.expected}{near}"


def _whole(text: str) -> int:
    number = plain_number(text)
    if number != int(number) or not 1 <= number <= LARGEST:
        raise ValueError
    return int(number)


def _count(text: str) -> int:
    return 0 if plain_number(text) == 0 else _whole(text)


def _amount(text: str) -> float:
    number = plain_number(text)
    if not 1 / LARGEST <= number <= LARGEST:
        raise ValueError
    return number


_TRUTH: Final = {"true": "1", "yes": "1", "on": "1", "y": "1", "false": "0", "no": "0", "off": "0", "n": "0"}
_STAGES: Final = {
    "none": "0", "no": "0", "ddp": "0", "no_shard": "0",
    "distributed optimizer": "1", "distributed-optimizer": "1",
    "shard_grad_op": "2", "full_shard": "3",
}  # fmt: skip
"""Words for a ZeRO stage: Megatron-LM's option and PyTorch FSDP's ``ShardingStrategy``."""
_COUNTERS: Final = {
    "max_memory_allocated": "allocated", "max_memory_reserved": "reserved", "nvidia-smi": "device",
}  # fmt: skip
"""Words for a counter of memory: PyTorch's functions, the driver's tool."""

COUNTERS: Final = ("allocated", "first-step", "reserved", "first-rank", "last-rank", "device")
"""What a figure of memory may count; ``first-step``: live tensors, read after the first step of a job;
``first-rank``: what the allocator of the first pipeline rank has reserved; ``last-rank``: live tensors of the
last one."""


def _switch(text: str) -> int:
    return {0.0: 0, 1.0: 1}[float(_TRUTH.get(text.lower(), text))]


def _kernel(text: str) -> int:
    return {0.0: 0, 1.0: 1, 2.0: 2, 3.0: 3}[plain_number(text)]


def _shards(text: str) -> str:
    plain = _STAGES.get(text.lower(), text.lower())
    match = re.fullmatch(r"(?:zero|stage)?[-_ ]?([0-3])(?:\.0)?|(hsdp:[1-9]\d*)", plain)
    if match is None:
        raise ValueError
    return match[1] or match[2]


def _memory_kind(text: str) -> str:
    plain = _COUNTERS.get(text.lower(), text.lower())
    if plain not in COUNTERS:
        raise ValueError
    return plain


_Reader = Callable[[str], object]
_KINDS: Final[dict[str, tuple[_Reader, str]]] = {
    "int | None": (_whole, "a whole number above 0, at most 10^12"),
    "float | None": (_amount, "a number above 0, from 10^-12 to 10^12"),
    "str": (str, "text"),
}
_SWITCH = (_switch, "0 or 1")
_COUNT = (_count, "a whole number from 0 to 10^12")
_SPECIAL: Final[dict[str, tuple[_Reader, str]]] = {
    **dict.fromkeys(("gated_mlp", "tied_embeddings", "seq_parallel", "oom", "fused_norm"), _SWITCH),
    **dict.fromkeys(("experts", "n_moe_layers", "shared_experts", "topk", "moe_ffn"), _COUNT),
    "flash_attn": (_kernel, "0, 1, 2 or 3"),
    "zero": (_shards, "0, 1, 2, 3 or hsdp:<shard size>"),
    "memory_kind": (_memory_kind, "allocated, first-step, reserved, first-rank, last-rank, device or blank"),
    **TUNING_CELLS,
}
COLUMNS: Final = {
    field.name: _SPECIAL.get(field.name, _KINDS[str(field.type)])
    for field in fields(Run)
    if field.name != "line"
}
"""Column to its reader and what it accepts."""

Header = list[tuple[str, _Reader] | None]


@dataclass(frozen=True)
class RunTable:
    """A table as read: its rows or their faults in order, and what is odd about its header and cells."""

    rows: Iterator[Run | Fault]
    """Read when asked for."""
    warnings: tuple[str, ...]
    """About the header."""
    blanks: Counter[str] = field(default_factory=Counter)
    """Cells with a word for blank in the rows read so far, by column. [-]"""


def read_header(names: list[str], where: str) -> tuple[Header, tuple[str, ...]]:
    """Return the reader of each column, and warnings about columns that are missing or unknown.

    Raises `InputError` if a column that every row needs is missing or stands twice; all such faults at once.
    """
    clean = [name.strip().lstrip("\ufeff") for name in names]
    if foreign := _foreign(names):
        raise InputError(Problem(f"{where}: line 1", foreign, "a header of comma-separated names in UTF-8"))
    problems = [
        Problem(
            f"{where}: column {name}",
            "missing",
            "a column of that name",
            nearest(name, set(clean) - set(COLUMNS)),
        )
        for name in NEEDED
        if name not in clean
    ]
    problems += [
        Problem(f"{where}: column {name}", f"{clean.count(name)} times", "once")
        for name in sorted(set(clean) & set(COLUMNS))
        if clean.count(name) > 1
    ]
    if problems:
        raise InputError(problems)
    absent = [name for name in COLUMNS if name not in (*clean, *OPTIONAL)]
    strange = [name for name in clean if name not in COLUMNS]
    warnings = [f"{where}: no column {', '.join(absent)}: taken as blank"] if absent else []
    for name in strange:
        hint = nearest(name, COLUMNS)
        warnings.append(
            f"{where}: column {name!r} is not in the schema: not read" + (f" ({hint}?)" if hint else "")
        )
    return [(name, COLUMNS[name][0]) if name in COLUMNS else None for name in clean], tuple(warnings)


def _foreign(names: list[str]) -> str:
    """Return what a header is written in that is not comma-separated UTF-8, empty where it may be."""
    if any("\0" in name for name in names):
        return "text in UTF-16"
    words = {";": "semicolons", "\t": "tabs", "|": "bars"}
    signs = (sign for sign in words if set(NEEDED) & {part.strip() for part in names[0].split(sign)[1:]})
    sign = next(signs, None) if len(names) == 1 else None
    return f"names separated by {words[sign]}" if sign else ""


def read_row(cells: list[str], header: Header, line: int, blanks: Counter[str] | None = None) -> Run | Fault:
    """Return one row as a `Run`, or its first fault; words that mean blank are counted in ``blanks``."""
    if len(cells) != len(header):
        return Fault(
            line, cells[0] if cells else "", "-", f"{len(cells)} cells", f"{len(header)}, as in the header"
        )
    values: dict[str, object] = {}
    for column, cell in zip(header, cells, strict=True):
        text = cell.strip()
        if not text or column is None:
            continue
        if says_nothing(column[0], text):
            if blanks is not None:
                blanks[column[0]] += 1
            continue
        try:
            values[column[0]] = column[1](text)
        except (ValueError, KeyError, OverflowError):
            name = next((c.strip() for h, c in zip(header, cells, strict=True) if h and h[0] == "id"), "")
            return Fault(line, name, column[0], repr(text[:80]), COLUMNS[column[0]][1])
    if "id" not in values:
        return Fault(line, "", "id", "blank", "a unique key")
    return Run(line=line, **values)  # type: ignore[arg-type]


def read_runs(lines: Iterable[str], where: str = "runs") -> RunTable:
    """Read a table whose first line is the header; rows are read when asked for.

    ``lines``: lines of the CSV, such as an open file; ``where``: what to call the table in messages.

    Raises `InputError` if there is no header, or it lacks a needed column.
    """
    source = _Lines(lines)
    try:
        names = source.row()
    except csv.Error as error:
        raise InputError(
            Problem(f"{where}: line 1", str(error), "a header of comma-separated names")
        ) from None
    if not names or not any(name.strip() for name in names):
        raise InputError(
            Problem(where, "nothing", f"a header with the columns {', '.join(NEEDED)} and others")
        )
    header, warnings = read_header(names, where)
    blanks: Counter[str] = Counter()
    return RunTable(_rows(source, header, blanks), warnings, blanks)


class _Lines:
    """The rows of a CSV, and the lines that the last of them took, so that they can be read again."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._taken: list[str] = []
        self._returned: list[str] = []
        self._reader = csv.reader(self._fed())

    def _fed(self) -> Iterator[str]:
        while (line := self._returned.pop() if self._returned else next(self._lines, None)) is not None:
            self._taken.append(line)
            yield line

    def row(self) -> list[str] | None:
        """Return the cells of the next row, None after the last."""
        self._taken.clear()
        return next(self._reader, None)

    def swallowed(self, header: Header) -> bool:
        """Whether a line after the first that the last row took is a row by itself."""
        return any(isinstance(_alone(line, header), Run) for line in self._taken[1:])

    def again(self) -> int:
        """Go back to the second line of the last row, where it had one, and return how many it had."""
        count = len(self._taken)
        if count > 1:
            self._returned += reversed(self._taken[1:])
            self._reader = csv.reader(self._fed())
        return count


def _alone(line: str, header: Header) -> Run | Fault | None:
    try:
        return read_row(next(csv.reader([line]), []), header, 0)
    except csv.Error:
        return None


def _rows(source: _Lines, header: Header, blanks: Counter[str]) -> Iterator[Run | Fault]:
    first: dict[str, int] = {}
    line = 1
    while True:
        line += 1
        try:
            cells = source.row()
        except csv.Error as error:
            found = OPEN_QUOTE.format(lines=count) if (count := source.again()) > 1 else str(error)
            yield Fault(line, "", "-", found, "a line of comma-separated cells")
            continue
        if cells is None:
            return
        if not any(cells):
            continue
        if (len(cells) != len(header) or source.swallowed(header)) and (count := source.again()) > 1:
            name, found = cells[0].split("\n")[0].strip(), OPEN_QUOTE.format(lines=count)
            yield Fault(line, name, "-", found, f"a row of {len(header)} cells, as in the header")
            continue
        row = read_row(cells, header, line, blanks)
        if isinstance(row, Run) and row.id in first:
            row = Fault(line, row.id, "id", f"{row.id!r} again, as in row {first[row.id]}", "a unique key")
        elif isinstance(row, Run):
            first[row.id] = line
        yield row
