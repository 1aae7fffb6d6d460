"""A folder is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.cli.emit import write_folder
from planner.errors import InputError

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
    assert len(refused.value.problems) == 2
    assert "--force" in str(refused.value)
    assert content(tmp_path) == {"a.sh": "old", "b.md": "old", "mine.txt": "mine"}
    write_folder(FILES, tmp_path, force=True)
    assert content(tmp_path) == FILES | {"mine.txt": "mine"}


def test_a_folder_with_other_files_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    write_folder(FILES, tmp_path)
    assert content(tmp_path) == FILES | {"mine.txt": "mine"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("after", range(5))
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

    monkeypatch.setattr(Path, "write_text", interrupted)
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
