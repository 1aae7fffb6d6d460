"""Settings from variables and files: which wins, that an answer says so, and what a wrong one costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.config import KEYS, user_file
from tests.cli.command import planner

MODEL = "llama3-8b"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    for name in KEYS:
        monkeypatch.delenv(f"PLANNER_{name.upper()}", raising=False)
    return work


def user(text: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text)


def shown() -> dict[str, tuple[str, str]]:
    rows = planner("config", "show", "--origin", "--format", "json").json
    return {row["setting"]: (row["value"], row["origin"]) for row in rows}


def test_nearer_layers_win(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown()["runtime"] == ("megatron-lm", "default")
    user("hardware: dgx-a100-80gb\ngpus: 8\nruntime: fsdp\n")
    (folder / "planner.yaml").write_text("gpus: 16\nruntime: torchtitan\n")
    monkeypatch.setenv("PLANNER_RUNTIME", "deepspeed")
    found = shown()
    assert found["hardware"] == ("dgx-a100-80gb", str(user_file()))
    assert found["gpus"] == ("16", "planner.yaml")
    assert found["runtime"] == ("deepspeed", "PLANNER_RUNTIME")
    answer = planner("estimate", MODEL, "--runtime", "megatron-lm", "--zero", "1", "--format", "json")
    assert answer.json["runtime"] == "megatron-lm"
    assert answer.json["hardware"]["name"] == "dgx-a100-80gb"
    assert answer.json["hardware"]["gpus"] == 16


def test_an_answer_says_what_was_configured_and_from_where(folder: Path) -> None:
    (folder / "planner.yaml").write_text("hardware: dgx-h100\ngpus: 8\nprecision: fp8\n")
    done = planner("estimate", MODEL, "--gpus", "16", "--format", "json")
    assert done.err == "note: configured: hardware dgx-h100 (planner.yaml), precision fp8 (planner.yaml)\n"
    assert (done.json["hardware"]["gpus"], done.json["workload"]["precision"]) == (16, "fp8")
    assert "precision" not in done.json["defaults"]
    assert planner("estimate", MODEL, "--quiet").err == ""


def test_lists_and_formats_are_settings_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "planner.yaml").write_text(
        "hardware: [dgx-h100]\nruntime: [megatron-lm, fsdp]\ngpus: 8\ntop: 3\n"
    )
    monkeypatch.setenv("PLANNER_FORMAT", "json")
    document = planner("search", MODEL, "--seq-len", "2048", "--global-batch", "32").json
    assert len(document["plans"]) == 3
    monkeypatch.setenv("PLANNER_HARDWARE", "dgx-h100, dgx-b200")
    assert shown()["hardware"] == ("dgx-h100, dgx-b200", "PLANNER_HARDWARE")


def test_a_plan_file_under_the_projects_name_is_no_configuration(folder: Path) -> None:
    ask = ("estimate", MODEL, "--hardware", "dgx-h100", "--gpus", "8", "--save", "planner.yaml")
    assert planner(*ask).code in (0, 1)
    assert shown()["hardware"] == (None, "default")
    assert planner("explain", "planner.yaml", "--format", "json").code in (0, 1)


def test_a_plan_file_is_not_contradicted_by_what_is_configured(folder: Path) -> None:
    ask = ("estimate", MODEL, "--hardware", "dgx-h100", "--gpus", "8", "--tp", "2", "--save", "plan.yaml")
    planner(*ask)
    (folder / "planner.yaml").write_text("hardware: dgx-b200\ngpus: 64\n")
    done = planner("mfu", "plan.yaml", "--step-time", "20", "--quiet", "--format", "json")
    assert (done.code, done.json["estimate"]["hardware"]["name"]) == (0, "dgx-h100")
    assert planner("mfu", "plan.yaml", "--step-time", "20").err == ""
    compared = planner("compare", "plan.yaml", "plan.yaml", "--format", "json")
    assert {plan["hardware"]["name"] for plan in compared.json["plans"]} == {"dgx-h100"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hardwear: dgx-h100\n", "nearest: hardware"),
        ("gpus: [8, 16]\n", "planner.yaml: gpus"),
        ("gpus: {a: 1}\nquiet: yes\n", "2 faults"),
        ("gpus: [\n", "planner.yaml"),
        ("hardware: dgx-h10\ngpus: 8\n", "--hardware"),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(folder: Path, text: str, words: str) -> None:
    (folder / "planner.yaml").write_text(text)
    done = planner("estimate", MODEL)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert planner("--help").code == 0


def test_a_variable_that_is_no_setting_is_told_where_settings_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANNER_HARDWRE", "dgx-h100")
    monkeypatch.setenv("PLANNER_DEBUG", "1")
    done = planner("config", "show")
    assert done.code == 0
    assert done.err.startswith("note: PLANNER_HARDWRE is no setting; nearest: PLANNER_HARDWARE")
    assert "PLANNER_DEBUG" not in done.err
