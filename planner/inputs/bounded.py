"""Read what users name, of any kind and any size, up to a limit: files, standard input, pipes, devices."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Final

from planner.errors import InputError, Problem

TEXT_BYTES: Final = 2_000_000
"""What a file that people write may hold: YAML, a launch file, a log. [byte]"""

DOCUMENT_BYTES: Final = 64_000_000
"""What a JSON document that the planner printed may hold. [byte]"""

TABLE_BYTES: Final = 32_000_000
"""What a run table may hold. [byte]"""

LINE_BYTES: Final = 1_000_000
"""The longest line of a table or a journal. [byte]"""

STANDARD_INPUT: Final = Path("standard input")
"""What messages call it; users write ``-``."""

WRITER_S: Final = 5.0
"""How long a named pipe may be without anybody who writes to it. [s]"""

_CHUNK: Final = 1 << 20

_WRITTEN: Final = ContextVar[Mapping[Path, str]]("files that a script writes", default=MappingProxyType({}))


@contextmanager
def with_written(texts: Mapping[Path, str]) -> Iterator[None]:
    """Take files for written, each with its text, within the block: nothing is written."""
    token = _WRITTEN.set({path.absolute(): text for path, text in texts.items()})
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def _written(path: Path) -> str | None:
    """Return the text of a file that a script writes, or None."""
    texts = _WRITTEN.get()
    return texts.get(path.absolute()) if texts else None


def read_bytes(path: Path, limit: int = TEXT_BYTES) -> bytes:
    """Return the bytes of a file, a pipe or a device, ``-`` for standard input: at most ``limit``.

    Raises `InputError` if it is missing, a folder or unreadable, if it holds more, or if it is a named pipe
    to which nobody writes.
    """
    where = STANDARD_INPUT if str(path) == "-" else path
    written = _written(path)
    try:
        if written is not None:
            raw = written.encode()
        else:
            raw = _standard_input(limit + 1) if str(path) == "-" else _file(path, limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Problem(str(where), reason, "a readable file")) from None
    if len(raw) > limit:
        raise InputError(Problem(str(where), f"more than {limit:,} bytes", f"at most {limit:,} bytes"))
    return raw


def decoded(raw: bytes, where: str) -> str:
    """Return bytes as text, without a byte-order mark.

    Raises `InputError` if they are not UTF-8; the message names the line.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(Problem(f"{where}:{line}", f"byte 0x{raw[error.start]:02x}", "UTF-8 text")) from None


@contextmanager
def table_lines(path: Path) -> Iterator[Iterable[str]]:
    """Open a run table, ``-`` for standard input; bytes that are not UTF-8 become marks that no number has.

    Raises `InputError` as `read_bytes`, or if a line is longer than `LINE_BYTES`.
    """
    raw = read_bytes(path, TABLE_BYTES)
    for number, line in enumerate(io.BytesIO(raw), 1):
        if len(line) > LINE_BYTES:
            found = f"a line of {len(line):,} bytes"
            raise InputError(Problem(f"{path}:{number}", found, f"at most {LINE_BYTES:,} bytes a line"))
    with io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", errors="replace", newline="") as stream:
        yield stream


def is_file(path: Path) -> bool:
    """Whether a file is there; a name that no file system takes is none."""
    try:
        return _written(path) is not None or path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is there; a name that no file system takes is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _standard_input(most: int) -> bytes:
    if sys.stdin is None:
        raise OSError("it is closed")
    buffer = getattr(sys.stdin, "buffer", None)
    raw: bytes = buffer.read(most) if buffer is not None else sys.stdin.read(most).encode("utf-8")
    return raw


def _file(path: Path, most: int) -> bytes:
    """Return at most so many bytes; a pipe is opened without waiting for its other end."""
    if not path.exists():
        raise OSError("no such file")
    if path.is_dir():
        raise OSError("a folder")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb", buffering=0) as stream:  # noqa: PTH123
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            start = _first_of_pipe(descriptor)
            os.set_blocking(descriptor, True)
        else:
            start = b""
            with suppress(OSError):
                os.set_blocking(descriptor, True)
        return start + _up_to(stream, most - len(start))


def _first_of_pipe(descriptor: int) -> bytes:
    """Return the first bytes of a named pipe, or none once somebody is there to write them."""
    until = time.monotonic() + WRITER_S
    while time.monotonic() < until:
        try:
            if start := os.read(descriptor, _CHUNK):
                return start
        except BlockingIOError:
            return b""
        time.sleep(0.02)
    raise OSError("a pipe to which nobody writes")


def _up_to(stream: io.RawIOBase | io.FileIO, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := stream.read(min(most, _CHUNK))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
