"""The README's way with a small model, really run: search, emit, smoke.

Two ranks on processors, over gloo, as in `test_own_scripts`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.report.plan_file import read_plan_file
from tests.helpers import run_planner
from tests.validate.test_own_scripts import STEP, environment, run
from tests.validate.test_own_scripts import pytestmark as pytestmark

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "tie_word_embeddings": False,
}  # fmt: skip
PYTHIA = {
    "model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 4,
    "num_attention_heads": 4, "vocab_size": 512, "hidden_act": "gelu", "max_position_embeddings": 2048,
    "rotary_pct": 0.25, "use_parallel_residual": True, "layer_norm_eps": 1e-05, "tie_word_embeddings": False,
}  # fmt: skip
"""A type of layers that is taken by what is read back (`planner.runtimes.hub.dense`)."""
JOB = (
    "config.json", "--hardware", "dgx-h100", "--gpus", "2", "--seq-len", "64", "--global-batch", "4",
    "--runtime", "fsdp", "--zero", "3", "--tp", "1", "--cp", "1",
)  # fmt: skip


@pytest.fixture(params=[CONFIG, PYTHIA], ids=lambda config: config["model_type"])
def ready(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, dict[str, str]]:
    """Return a folder with a searched plan and its files, and an environment that runs them."""
    (tmp_path / "config.json").write_text(json.dumps(request.param), encoding="utf-8")
    done = run_planner("search", *JOB, "--save", "plan.yaml", "--emit", "out/", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    layout = read_plan_file(tmp_path / "plan.yaml").plan
    env = environment(tmp_path, layout, "fsdp")
    return tmp_path, env


def test_the_smoke_run_of_a_searched_model_needs_nothing(ready: tuple[Path, dict[str, str]]) -> None:
    folder, env = ready
    printed = run(folder / "out", env | {"SMOKE": "1"})
    assert [int(number) for number, *_ in STEP.findall(printed)] == list(range(1, 21))
    assert "planner mfu" in printed.splitlines()[-1]
