"""What is run on a machine with a GPU runs on a processor, from the first command to the page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu import measure, page

pytestmark = pytest.mark.torch


def test_one_command_measures_everything_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--tiny", "--scale", "0.04", "--out", str(tmp_path)]
    assert measure.main(options) == 0, capsys.readouterr().err
    (folder,) = tmp_path.iterdir()
    assert f"{folder}: commit this folder" in capsys.readouterr().out
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "| products bf16 | 6 |" in text
    assert "llama-tiny-s64-mb2x1-fsdp" in text
    assert "| dense | qkv | forward |" in text
    assert (folder / "steps.svg").read_text(encoding="utf-8").startswith("<svg")
    assert json.loads((folder / "check.json").read_text(encoding="utf-8"))["schema"] == "planner/check/1"


def test_a_part_that_hangs_or_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    hangs = measure.Part("a part", (sys.executable, "-c", "import time; time.sleep(60)"), 0.01)
    assert measure.run(hangs, tmp_path).startswith("a part: stopped after 0.01 minutes")
    fails = measure.Part("a part", (sys.executable, "-c", "raise SystemExit(70)"), 0.5)
    assert measure.run(fails, tmp_path) == "a part: ended with exit code 70"
    text = page.page(tmp_path, ["a part: ended with exit code 70"])
    assert "- a part: ended with exit code 70" in text
    assert "No training steps were run." in text


def test_one_part_alone_may_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--tiny", "--scale", "0.06", "--out", str(tmp_path), "--only", "profile"]
    assert measure.main(options) == 0, capsys.readouterr().err
    (folder,) = tmp_path.iterdir()
    assert (folder / "profile.yaml").is_file()
    assert not (folder / "steps.jsonl").exists()


def test_a_machine_without_the_device_says_so_at_once(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="sees no GPU"):
        measure.main(["--device", "cuda", "--out", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_all_parts_together_end_within_twenty_five_minutes(tmp_path: Path) -> None:
    parts = list(measure.parts(tmp_path, "cuda", tiny=False, scale=1.0))
    assert sum(part.minutes for part in parts) <= 25


def test_the_page_tells_errors_of_both_curves_and_of_steps() -> None:
    row = {
        "bench": "gemm", "dtype": "bf16", "variant": "product", "seconds": 2.0, "predicted": 1.9,
        "shipped": 2.5,
    }  # fmt: skip
    (line,) = [line for line in page.kernels([row]) if line.startswith("| products")]
    assert line == "| products bf16 | 1 | 5.0% | 4.0% | 5.0% | 25.0% | +25.0% |"
    step = {
        "case": "a", "wrapper": "fsdp", "oom": False, "seconds": 2.0, "predicted_s": 1.0,
        "predicted_bytes": 2**30, "peak_bytes": 2**31, "predicted_fits": True,
    }  # fmt: skip
    assert "| a | 2.0000 | 1.0000 | -50.0% | 2.00 | 1.00 | -50.0% |" in page.steps([step])
