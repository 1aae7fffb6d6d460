"""What a user gets: the wheel holds the zoo and the profiles, and works from any folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.command import planner
from tests.helpers import ROOT, user_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel without network; the build backend is one of the development packages."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, f"run `make setup` first\n{built.stderr}"
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel into a folder, as an installer would."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_unpacked(unpacked: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=user_environment(cwd, pythonpath=unpacked),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_all_code_and_data_and_nothing_else(unpacked: Path) -> None:
    suffixes = {".py", ".yaml", ".typed", ".j2"}

    def files(folder: Path) -> set[str]:
        found = {path for path in folder.rglob("*") if path.suffix in suffixes}
        return {path.relative_to(folder).as_posix() for path in found}

    data = {
        f"data/{name}/{file}"
        for name in ("hardware_profiles", "failure_profiles", "models_zoo")
        for file in files(ROOT / name)
    }
    assert files(unpacked / "planner") == files(ROOT / "planner") | data
    assert "py.typed" in files(unpacked / "planner")
    tops = {path.name.split("-")[0] for path in unpacked.iterdir()}
    assert tops == {"planner", "parallelism_planner"}


def test_the_zoo_and_the_profiles_are_not_empty(unpacked: Path) -> None:
    for name in ("hardware_profiles", "failure_profiles", "models_zoo"):
        assert list((unpacked / "planner" / "data" / name).rglob("*.yaml"))


def test_the_wheel_says_what_it_is(unpacked: Path) -> None:
    (folder,) = unpacked.glob("*.dist-info")
    metadata = (folder / "METADATA").read_text(encoding="utf-8")
    assert "Name: parallelism-planner\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "Requires-Dist: torch" not in [line for line in metadata.splitlines() if "extra ==" not in line]
    assert "planner = planner.__main__:main" in (folder / "entry_points.txt").read_text(encoding="utf-8")


def test_the_command_runs_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    place = run_unpacked(unpacked, tmp_path, "-c", "import planner; print(planner.__file__)")
    assert Path(place.stdout.strip()).is_relative_to(unpacked)
    shown = run_unpacked(unpacked, tmp_path, "-m", "planner", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "search" in shown.stdout


@pytest.mark.parametrize("table", ["models", "hardware"])
def test_the_wheel_lists_what_the_checkout_lists(unpacked: Path, tmp_path: Path, table: str) -> None:
    here = planner(table, "list", "--format", "json")
    there = run_unpacked(unpacked, tmp_path, "-m", "planner", table, "list", "--format", "json")
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout == here.out
    assert len(there.stdout) > 1000
