"""The training script of the GPU tests runs on a processor, on the very models that the planner prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.gpu.models import SIZES, Model
from tests.gpu.train_step import default_cases, main, predicted, summary, tiny_cases

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", sorted(name for name in SIZES if name.endswith("tiny")))
def test_the_model_that_trains_has_the_weights_that_are_priced(name: str) -> None:
    model = Model(SIZES[name], 64)
    assert sum(weight.numel() for weight in model.parameters()) == SIZES[name].spec(64).params


@pytest.mark.parametrize("name", sorted(name for name in SIZES if not name.endswith("tiny")))
def test_the_models_of_the_gpu_have_the_weights_that_are_priced(name: str) -> None:
    with torch.device("meta"):
        model = Model(SIZES[name], 1024)
    assert sum(weight.numel() for weight in model.parameters()) == SIZES[name].spec(1024).params


def test_every_case_has_its_own_name_and_a_price() -> None:
    cases = default_cases()
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        price = predicted(case, "dgx-h100")
        assert price.step > 0
        assert not [rule for rule in price.violations if "memory" not in rule.rule]


def test_the_script_trains_keeps_its_rows_and_does_not_repeat_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "steps.jsonl"
    arguments = ["--device", "cpu", "--tiny", "--hardware", "dgx-h100", "--out", str(out)]
    assert main(arguments) == 0
    kept = out.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in kept.splitlines()]
    assert len(rows) == len(tiny_cases())
    assert all(row["seconds"] > 0 and row["predicted_s"] > 0 and not row["oom"] for row in rows)
    assert main(arguments) == 0
    assert out.read_text(encoding="utf-8") == kept
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["cases"] == len(rows)


def test_a_predicted_fit_that_runs_out_is_named() -> None:
    rows = [
        {"case": "a", "oom": True, "predicted_fits": True},
        {"case": "b", "oom": True, "predicted_fits": False},
        {"case": "c", "oom": False, "predicted_fits": True, "predicted_s": 1.1, "seconds": 1.0,
         "predicted_bytes": 9.0, "peak_bytes": 10.0},
    ]  # fmt: skip
    found = summary(rows)
    assert found["ran_out_though_predicted_to_fit"] == ["a"]
    assert (round(found["time_worst"], 3), round(found["memory_mean"], 3)) == (0.1, 0.1)
