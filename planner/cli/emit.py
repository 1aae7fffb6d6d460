"""Write the files of a plan into a folder: all of them, or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from planner.errors import InputError, Problem


def write_folder(files: Mapping[str, str], out: Path, force: bool = False) -> list[Path]:
    """Write ``files`` into the folder ``out`` and return their paths.

    They are written into a new folder beside ``out`` first. Where ``out`` does not exist that folder takes
    its name; otherwise each file is moved over, and what stood there is put back if a move fails.

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
    _check(files, out, force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise _unwritable(out, error) from None
    try:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
            (fresh / name).chmod(0o755 if text.startswith("#!") else 0o644)
        fresh.chmod(0o755)
        if out.exists():
            _move_over(fresh, out, files)
        else:
            fresh.rename(out)
    except OSError as error:
        raise _unwritable(out, error) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return [out / name for name in files]


def _check(files: Mapping[str, str], out: Path, force: bool) -> None:
    try:
        if out.exists() and not out.is_dir():
            raise InputError(Problem("--out", str(out), "a folder", str(out.parent)))
        there = [name for name in files if (out / name).exists()]
    except OSError as error:
        raise _unwritable(out, error) from None
    if there and not force:
        expected = "a folder without these files, or --force to replace them"
        raise InputError([Problem("--out", str(out / name), expected, f"{out}-2") for name in there])


def _move_over(fresh: Path, out: Path, files: Mapping[str, str]) -> None:
    """Move each file into ``out``; whatever stops it, an interrupt too, the old files come back."""
    old = fresh / ".old"
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
