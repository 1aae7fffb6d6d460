"""Where answers are written: links stay links, devices stay devices, closed streams harm nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import write_whole
from tests.helpers import user_environment


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Root may rename a file over `/dev/null`; here a link to it stands in its place."""
    device = tmp_path / "null"
    device.symlink_to(os.devnull)
    write_whole(device, "text", force=True)
    assert device.is_symlink()
    assert Path(os.devnull).is_char_device()


def test_a_pipe_needs_no_force(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "text", force=False)
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)


def test_a_link_stays_one_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "plan.yaml", tmp_path / "plan.yaml"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new", force=True)
    assert (link.is_symlink(), target.read_text()) == (True, "new")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="a system without /dev/full")
def test_a_full_device_is_told_as_the_option_that_named_it() -> None:
    with pytest.raises(InputError, match=r"--save.*No space left"):
        write_whole(Path("/dev/full"), "text", force=False, option="--save")


def run(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a shell, for its redirections."""
    command = f'"{sys.executable}" -m planner {line}'
    return subprocess.run(
        ["sh", "-c", command],
        env=user_environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "code"), [("models list >&-", 0), ("models list 2>&-", 0), ("models show nosuch 2>&-", 2)]
)
def test_a_closed_stream_changes_no_exit_code(line: str, code: int, tmp_path: Path) -> None:
    done = run(line, tmp_path)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="a system without /dev/full")
def test_an_answer_that_finds_no_room_is_no_internal_error(tmp_path: Path) -> None:
    done = run("models list --format json >/dev/full", tmp_path)
    assert done.returncode == 70
    assert done.stderr == "error: the answer could not be written: No space left on device\n"
