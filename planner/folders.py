"""Write the files of a plan into a folder: all of them, or none."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem

ASIDE: Final = ".old"
"""How the name of a folder ends whose place a new one takes; it lives for an instant."""


def write_folder(files: Mapping[str, str], out: Path, force: bool = False) -> list[Path]:
    """Write ``files`` into the folder ``out`` and return their paths.

    They are written into a new folder beside ``out``, where everything else that ``out`` holds is linked.
    Then the new one takes its place by two renames: whoever looks sees the old folder, the new one, or for an
    instant none. A kill between the two leaves the old one under a hidden name, and the next call brings it
    back. Where the caller works inside ``out``, which must stay the same folder then, files are moved over
    one by one, and put back if a move fails; a kill can leave that half-done.

    Parameters
    ----------
    files : mapping
        Name to text.
    out : Path
        The folder; made where it is missing.
    force : bool
        Whether existing files may be replaced; other files of the folder stay in any case.

    Raises
    ------
    InputError
        If the folder cannot be written, or a file exists and ``force`` is not set.
    """
    fresh = None
    try:
        place = out.resolve()
        _bring_back(place)
        _check(files, out, force)
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name[:200]}-{os.urandom(4).hex()}")
        fresh.mkdir()
        _fill(fresh, files, place)
        if not place.exists():
            fresh.rename(place)
        elif place.is_mount() or Path.cwd().is_relative_to(place):
            _move_over(fresh, place, files)
        else:
            _swap(fresh, place)
    except OSError as error:
        raise _unwritable(out, error) from None
    finally:
        if fresh is not None:
            _remove(fresh)
    return [out / name for name in files]


def _check(files: Mapping[str, str], out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(Problem("--out", str(out), "a folder", str(out.parent)))
    there = [name for name in files if (out / name).exists()]
    if there and not force:
        expected = "a folder without these files, or --force to replace them"
        raise InputError(Problem("--out", f"{out} with {', '.join(there)}", expected, f"{out}-2"))


def _fill(fresh: Path, files: Mapping[str, str], out: Path) -> None:
    """Write the files with the rights that the umask gives; those that are replaced keep their own."""
    for name, text in files.items():
        place, rights = out / name, 0o777 if text.startswith("#!") else 0o666
        descriptor = os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(text)
        if place.is_file():
            (fresh / name).chmod(stat.S_IMODE(place.stat().st_mode))
    if out.exists():
        fresh.chmod(stat.S_IMODE(out.stat().st_mode))


def _swap(fresh: Path, out: Path) -> None:
    """Let the new folder take the place of the old one, with what else the old one holds."""
    shutil.copytree(
        out,
        fresh,
        symlinks=True,
        dirs_exist_ok=True,
        copy_function=_link,
        ignore=lambda folder, names: [
            name for name in names if Path(folder) == out and (fresh / name).exists()
        ],
    )
    aside = fresh.with_name(fresh.name + ASIDE)
    try:
        out.rename(aside)
        fresh.rename(out)
    except BaseException:
        if aside.exists() and not out.exists():
            aside.rename(out)
        raise
    _remove(aside)


def _remove(folder: Path) -> None:
    """Remove a hidden folder, even if an interrupt comes meanwhile."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _link(source: str, target: str) -> None:
    """Give a file a second name, or copy it where the file system has no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _bring_back(out: Path) -> None:
    """Put a folder back that a kill has left under its hidden name."""
    if out.exists() or not out.parent.is_dir():
        return
    left = sorted(out.parent.glob(f".{escape(out.name[:200])}-????????{ASIDE}"), key=_age)
    if left:
        left[-1].rename(out)


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _move_over(fresh: Path, out: Path, files: Mapping[str, str]) -> None:
    """Move each file into ``out``; whatever stops it, an interrupt too, the old files come back."""
    old = fresh / ASIDE
    old.mkdir()
    moved: list[str] = []
    try:
        for name in files:
            moved.append(name)
            if (out / name).exists():
                (out / name).rename(old / name)
            (fresh / name).rename(out / name)
    except BaseException:
        for name in moved:
            if (old / name).exists():
                (old / name).replace(out / name)
            elif not (fresh / name).exists():
                (out / name).unlink(missing_ok=True)
        raise


def _unwritable(out: Path, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    return InputError(Problem("--out", str(out), f"a folder that can be written ({reason.lower()})"))
