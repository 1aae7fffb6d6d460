"""What runs here, found without torch, against what a profile was measured with."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.shipped import data_folder
from planner.profile import running
from planner.profile.running import installed_torch, loaded_driver, read_measured, software_notes
from tests.cases import every
from tests.cli.command import planner
from tests.swept_here import swept_here

THEN = {"torch": "2.13.0+cu130", "driver": "580.95.05", "cuda": "13.0"}
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@builder)\n"
JOB = ("--gpus", "8", "--global-batch", "8", "--tp", "8", "--pp", "1", "--micro-batch", "1")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Make a cluster of H100 with curves of its own that say what they were measured with."""
    shipped = (data_folder("hardware_profiles") / "curves" / "h100-80gb-sxm.yaml").read_text(encoding="utf-8")
    words = ", ".join(f"{name}: '{text}'" for name, text in THEN.items())
    (tmp_path / "mine.curves.yaml").write_text(f"{shipped}provenance: {{{words}}}\n", encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\npools:\n  - accelerator: {base: h100-80gb-sxm, curves: mine.curves.yaml}\n"
        "    node: dgx-h100\n    network: infiniband-ndr\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def measured(profile: Path) -> HardwareProfile:
    return load_hardware(str(profile))


@every(("text", "version"), [(PROPRIETARY, "550.54.15"), (OPEN, "580.95.05"), ("something else 1.2\n", "")])
def test_the_loaded_driver_is_read_from_its_file(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "version").write_text(text, encoding="utf-8")
    assert loaded_driver(tmp_path / "version") == version


def test_without_driver_or_torch_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setattr(running, "loaded_driver", lambda: loaded_driver(tmp_path / "none"))
    assert running.running_versions() == {}


def test_the_build_of_torch_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"torch": "2.13.0+cpu"}.__getitem__)
    assert installed_torch() == "2.13.0"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({}, []),
        ({"torch": "2.13.0", "driver": "580.95.05"}, []),
        ({"torch": "2.14.0"}, ["torch was 2.13.0 and is 2.14.0"]),
        (
            {"torch": "2.14.0", "driver": "590.10"},
            ["driver was 580.95.05 and is 590.10; torch was 2.13.0 and is 2.14.0"],
        ),
    ],
)
def test_another_driver_or_torch_is_told(
    measured: HardwareProfile, now: dict[str, str], told: list[str]
) -> None:
    said = [f"the curves of h100-80gb-sxm were measured with other versions: {line}" for line in told]
    assert software_notes(measured, now) == said


def test_what_ships_is_not_compared() -> None:
    assert software_notes(load_hardware("dgx-h100"), {"torch": "0.1", "driver": "1"}) == []


@every("text", ["gemm: {}\n", "provenance: 2026\n"])
def test_a_file_that_says_nothing_of_its_origin_is_not_compared(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    assert read_measured(str(tmp_path / "x.yaml")) == {}


@pytest.mark.parametrize("command", [("estimate",), ("search",), ("mfu", "--step-time", "5")])
def test_commands_say_so_and_import_no_torch(
    command: tuple[str, ...], profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "running_versions", lambda: {"torch": "2.14.0"})
    monkeypatch.setitem(sys.modules, "torch", None)
    asked = (command[0], "llama2-7b", "--hardware", str(profile), *JOB, *command[1:], "--format", "json")
    done = planner(*asked)
    assert done.code == 0, done.err
    assert done.json
    told = "measured with other versions: torch was 2.13.0 and is 2.14.0"
    assert done.err == f"note: the curves of h100-80gb-sxm were {told}\n"
    assert planner(*asked, "--quiet").err == ""


def test_a_saved_plan_says_so_too(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "running_versions", lambda: {"driver": "590.10"})
    plan = tmp_path / "plan.yaml"
    asked = ("estimate", "llama2-7b", "--hardware", str(profile), *JOB, "--quiet", "--save", str(plan))
    assert planner(*asked).code == 0
    for command in (("explain",), ("simulate",), ("emit", "--out", str(tmp_path / "out"))):
        assert "driver was 580.95.05 and is 590.10" in planner(command[0], str(plan), *command[1:]).err


def test_a_sweep_says_so_once(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "running_versions", lambda: {"torch": "2.14.0"})
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        f"models: llama2-7b\nhardware: {profile}\ngpus: [8]\nseq_len: [2048, 4096]\nglobal_batch: 64\n"
        "tp: 1\npp: 1\ncp: 1\nmicro_batch: 1\n"
    )
    with swept_here():
        done = planner("sweep", str(grid), "--out", str(tmp_path / "out.jsonl"), "--jobs", "1")
    assert done.err.count("torch was 2.13.0 and is 2.14.0") == 1
