"""A folder is written whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.folders import write_folder

OLD = {"a.sh": "old a", "c.yaml": "old c", "mine.txt": "mine"}

KILLED = """
import os, signal, sys
from pathlib import Path
from planner.cli.interrupts import raise_on_signals
from planner.folders import write_folder
files, out, kind, after = eval(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
count = iter(range(10**9))
armed = False
def hook(event, args):
    if armed and event in WATCHED and next(count) == after:
        os.kill(os.getpid(), kind)
WATCHED = "open os.rename os.link os.mkdir os.rmdir os.remove os.chmod os.listdir os.scandir".split()
sys.addaudithook(hook)
raise_on_signals()
armed = True
write_folder(files, out, force=True)
armed = False
"""
"""Ends itself at the n-th operation on files; run with the files, the folder, the signal and n."""

FILES = {"a.sh": "#!/bin/sh\nnew a\n", "b.md": "new b\n", "c.yaml": "new c\n"}


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_new_folder_holds_the_files_and_its_scripts_can_run(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    assert write_folder(FILES, out) == [out / name for name in FILES]
    assert content(out) == FILES
    assert os.access(out / "a.sh", os.X_OK)
    assert not os.access(out / "b.md", os.X_OK)
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_existing_files_are_replaced_only_on_request_and_all_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("old")
    (tmp_path / "b.md").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError) as refused:
        write_folder(FILES, tmp_path)
    (fault,) = refused.value.problems
    assert "a.sh, b.md" in str(fault.found)
    assert "--force" in str(refused.value)
    assert content(tmp_path) == {"a.sh": "old", "b.md": "old", "mine.txt": "mine"}
    write_folder(FILES, tmp_path, force=True)
    assert content(tmp_path) == FILES | {"mine.txt": "mine"}


def test_a_folder_with_other_files_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    write_folder(FILES, tmp_path)
    assert content(tmp_path) == FILES | {"mine.txt": "mine"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("after", range(2))
def test_whatever_stops_it_the_old_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException], after: int
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    old = {"a.sh": "old a", "c.yaml": "old c", "mine.txt": "mine"}
    for name, text in old.items():
        (out / name).write_text(text)
    moves, move = iter(range(100)), Path.rename

    def interrupted(path: Path, goal: Path) -> Path:
        if next(moves) == after:
            raise stop
        return move(path, goal)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(InputError if stop is OSError else stop):
        write_folder(FILES, out, force=True)
    assert content(out) == old
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_interrupt_before_the_move_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(FILES, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="expected a folder"):
        write_folder(FILES, tmp_path / "file")
    with pytest.raises(InputError, match="expected a folder"):
        write_folder(FILES, tmp_path / "file" / "out")
    with pytest.raises(InputError, match="expected a folder"):
        write_folder(FILES, tmp_path / ("x" * 300))
    if os.geteuid() != 0:
        (tmp_path / "shut").mkdir(mode=0o500)
        with pytest.raises(InputError, match="expected a folder"):
            write_folder(FILES, tmp_path / "shut" / "out")


def test_rights_are_those_of_the_umask_or_of_the_file_that_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = os.umask(0o077)
    try:
        write_folder(FILES, out)
        assert [(out / name).stat().st_mode & 0o777 for name in FILES] == [0o700, 0o600, 0o600]
        assert out.stat().st_mode & 0o777 == 0o700
        (out / "b.md").chmod(0o640)
        write_folder(FILES, out, force=True)
        assert (out / "b.md").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_folders_inside_stay_and_the_folder_one_works_in_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    (out / "checkpoints" / "deep").mkdir(parents=True)
    (out / "checkpoints" / "deep" / "step.pt").write_text("kept")
    (out / "a.sh").write_text("old")
    write_folder(FILES, out, force=True)
    assert (out / "checkpoints" / "deep" / "step.pt").read_text() == "kept"
    assert (out / "a.sh").read_text() == FILES["a.sh"]
    monkeypatch.chdir(out)
    inode = out.stat().st_ino
    write_folder({"a.sh": "newer"}, Path(), force=True)
    assert (out.stat().st_ino, (out / "a.sh").read_text()) == (inode, "newer")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_at_any_moment_leaves_the_old_folder_or_the_new_one(
    tmp_path: Path, kind: signal.Signals
) -> None:
    """After a kill between two renames there is none, until the next call mends it."""
    new = {**FILES, "mine.txt": "mine"}
    seen: list[str] = []
    for after in range(200):
        out = tmp_path / str(after) / "out"
        out.mkdir(parents=True)
        for name, text in OLD.items():
            (out / name).write_text(text)
        arguments = (repr(FILES), str(out), str(int(kind)), str(after))
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, capture_output=True)
        found = content(out) if out.exists() else {}
        assert found in (OLD, new, {}), after
        seen.append("old" if found == OLD else "new" if found else "none")
        if kind == signal.SIGTERM:
            assert found, after
            assert [path.name for path in out.parent.iterdir()] == ["out"]
        write_folder({"b.md": "again"}, out, force=True)
        assert content(out) == (new if found == new else OLD) | {"b.md": "again"}
        if done.returncode == 0:
            break
    assert done.returncode == 0
    assert {"old", "new"} <= set(seen)
