"""What a layer with adapters keeps is what transformers and peft save, with dropout and without."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.operators import Pricer
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.hub.config import hub_config
from tests.validate.ask import PYTHON, ROOT
from tests.validate.test_hub_types import smaller

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("peft", "VALIDATE_PYTHON needs torch, transformers and peft"),
]

TOKENS = 320
"""As in the program: a width of no adapter, which tells what is kept from weights."""

KINDS = {
    "llama": "llama3-8b", "qwen2": "qwen2.5-7b", "qwen3": "qwen3-8b", "phi3": "phi3-mini-4k",
    "gemma2": "gemma2-9b", "olmo2": "olmo2-7b",
}  # fmt: skip
"""Types of transformers to a model of the zoo; a layer of a quarter of its width is counted."""
WAYS = {("float32", 0.05): 0, ("bfloat16", 0.0): 3}
"""Dtype of adapters and share that they drop, to a ZeRO stage that computes so: FSDP gathers in 16 bits."""
CASES = [(kind, dtype, share) for kind in KINDS for dtype, share in WAYS]


def small_config(kind: str) -> dict[str, Any]:
    """Return the configuration of layers a quarter as wide."""
    return smaller(hub_config(load_model(KINDS[kind]), TOKENS))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, float], int]:
    folders: dict[str, Path] = {}
    for kind in KINDS:
        folders[kind] = tmp_path_factory.mktemp(kind)
        (folders[kind] / "config.json").write_text(json.dumps(small_config(kind)), encoding="utf-8")
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_adapters_kept.py"],
        input="\n".join(f"{folders[kind]} {dtype} {share}" for kind, dtype, share in CASES),
        capture_output=True, text=True, check=True, timeout=900,
    )  # fmt: skip
    return {
        case: json.loads(line)["kept"] for case, line in zip(CASES, done.stdout.splitlines(), strict=True)
    }


@pytest.mark.parametrize(("kind", "dtype", "share"), CASES)
def test_a_layer_keeps_what_is_priced(
    kind: str, dtype: str, share: float, kept: dict[tuple[str, str, float], int]
) -> None:
    model = model_from_config(small_config(kind), "config.json", kind).model
    runtime = runtimes()["fsdp"].for_model(model)
    runtime = runtime.with_traits(adapter_dropout=True) if share else runtime
    work = Workload(seq_len=TOKENS, global_batch=8, method="lora", lora_rank=8)
    zero = WAYS[dtype, share]
    plan = Plan(dp=8, zero=zero, zero_shards=8 if zero else 1)
    pricer = Pricer(case_of(plan, Job(model, load_hardware("dgx-h100"), 8, work), runtime), plan)
    operators = block_operators(pricer, model.blocks[model.layers[2]])
    priced = float(sum(operator.kept + operator.saved for operator in operators))
    assert priced == pytest.approx(kept[kind, dtype, share], rel=0.01)
