"""The types of the hub that are taken by what is read back: transformers builds and keeps what is priced."""

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
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes._hub_config import LAYER_CLASSES, TYPES, architecture, hub_config
from planner.runtimes._hub_dense import DENSE
from planner.runtimes.family import Job
from planner.runtimes.fsdp import ENTRY
from tests.helpers import ROOT
from tests.validate.ask import PYTHON, has

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not has("transformers"), reason="no interpreter with transformers: make validate"),
]

TOKENS = 256
ZOO = {
    "llama": "tinyllama-1.1b", "qwen3": "qwen3-0.6b", "gpt2": "gpt2",
    "gemma": "gemma-2b", "glm4": "glm-4-9b-0414", "olmo": "olmo-7b", "olmo2": "olmo2-7b",
    "olmoe": "olmoe-1b-7b", "opt": "opt-1.3b", "phi": "phi-1.5", "gpt_neox": "pythia-1b",
    "stablelm": "stablelm-2-1.6b",
}  # fmt: skip
"""A model of each type, and of three that are told part by part."""


WIDTHS = (
    *("hidden_size", "intermediate_size", "ffn_dim", "word_embed_proj_dim", "n_embd", "n_inner"),
    *("num_attention_heads", "num_key_value_heads", "n_head"),
)


def smaller(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of layers a quarter as wide, with heads as they are."""
    return config | {key: max(1, config[key] // 4) for key in WIDTHS if key in config}


def test_each_dense_type_has_a_model_of_the_zoo() -> None:
    kinds = {kind: architecture(load_model(name)) for kind, name in ZOO.items()}
    assert kinds == {kind: kind for kind in ZOO}
    assert set(ZOO) >= set(DENSE)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folders: dict[str, Path] = {}
    for kind, name in ZOO.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        whole = hub_config(load_model(name), TOKENS)
        for folder, config in ((folders[kind], whole), (folders[kind] / "small", smaller(whole))):
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_kept.py"], input="\n".join(map(str, folders.values())),
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(folders, lines, strict=True))


@pytest.mark.parametrize("kind", ZOO)
def test_transformers_builds_the_model(kind: str, answers: dict[str, Any]) -> None:
    found = answers[kind]
    assert found["params"] == load_model(ZOO[kind]).params
    assert LAYER_CLASSES[kind] in found["classes"]
    named = [name for group in TYPES[kind].adapted.values() for name in group] if kind in TYPES else []
    for name in named:
        assert any(own.endswith(name) for own in found["linear"]), name


@pytest.mark.parametrize("kind", [kind for kind in ZOO if kind != "olmoe"])
def test_a_layer_keeps_no_more_than_is_priced(kind: str, answers: dict[str, Any]) -> None:
    """On a processor heads are not copied, which PyTorch's tracker counts for a GPU."""
    small = smaller(hub_config(load_model(ZOO[kind]), TOKENS))
    priced = kept_of(model_from_config(small, "config.json", kind).model)
    assert 0.99 < priced / answers[kind]["kept"] < 1.15


def kept_of(model: ModelSpec) -> float:
    """Return the bytes that a layer keeps under FSDP without recompute."""
    runtime = ENTRY.for_model(model)
    job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=TOKENS, global_batch=1))
    pricer = Pricer(case_of(Plan(dp=1), job, runtime), Plan(dp=1))
    operators = block_operators(pricer, model.blocks[model.layers[-1]])
    return float(sum(operator.kept + operator.saved for operator in operators))
