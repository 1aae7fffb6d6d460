"""Recipes that Megatron-Bridge ships for its benchmarks are read whole, are legal, and fit their cluster.

They are of nobody's run table, so that nothing was fitted to them.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.runtimes.megatron_bridge.reading.recipe_table import known_recipe, recipe_names
from tests.cases import every
from tests.cli.command import planner

CLUSTERS = {
    "h100": ("dgx-h100", 8), "b200": ("dgx-b200", 8), "b300": ("dgx-b300", 8), "gb200": ("gb200-nvl72", 4),
    "gb300": ("gb300-nvl72", 4), "vr200": ("vera-rubin-nvl72", 4), "r100": ("vera-rubin-nvl72", 4),
}  # fmt: skip
"""The accelerator of a recipe's name: a cluster of it, and how many a node has."""

EVERY = int(os.environ.get("RECIPES_EVERY", "4"))
"""One recipe of so many is priced here; RECIPES_EVERY=1 prices all 528 in a minute and a half."""

SMALLER = re.compile(
    r"^(deepseek_v3_pretrain_(64gpu_h100|128gpu_vr200)|qwen3_235b_a22b_pretrain_64gpu_(gb300|gb200_[fn]))"
)
"""Recipes whose stages times expert ranks are more accelerators than they name: their runner refuses them."""

REFUSED = {
    "nemotronh_56b_pretrain_256gpu_b200_bf16": {"batch-divides"},
    "nemotronh_56b_pretrain_256gpu_gb300_bf16": {"batch-divides"},
    "deepseek_v3_pretrain_128gpu_gb300_fp8mx_hsdp": {"graphs-keep-places"},
}
"""Recipes that are refused otherwise: 192 sequences of 128 ranks, by their runner too; and graphs beside
Megatron-FSDP, which it takes."""

FULL = re.compile(
    r"^llama31_405b_pretrain_(128gpu_g?b200_(bf16|fp8cs|fp8mx)|256gpu_g?b200_bf16)"
    r"|llama3_70b_pretrain_32gpu_gb200_fp8cs|qwen35_vl_35b_a3b_pretrain_8gpu_(g?b300|vr200)"
)
"""Recipes that are called out of memory: tensors alone fill or exceed the device in most."""


def benchmarks() -> list[str]:
    """Names of all recipes of a number of accelerators."""
    known = ((name, known_recipe(name)) for name in recipe_names())
    return [name for name, recipe in known if recipe is not None and recipe.gpus and recipe.name == name]


@cache
def priced(name: str, folder: Path) -> dict[str, Any]:
    """What ``estimate`` answers to a launch of a recipe."""
    found = re.search(r"(\d+)gpu_([a-z0-9]+)_", name)
    assert found is not None
    gpus, (cluster, size) = int(found[1]), CLUSTERS[found[2]]
    start = folder / f"{name}.sh"
    size = min(size, gpus)
    words = f"--recipe {name} --nodes {gpus // size} --gpus-per-node {size}"
    start.write_text(f"python scripts/performance/run_recipe.py {words}\n")
    answer = planner(
        "estimate", "--from", str(start), "--hardware", cluster, "--gpus", str(gpus), "--format", "json"
    )
    return dict(answer.json)


@pytest.mark.parametrize("name", benchmarks()[::EVERY])
def test_a_recipe_is_read_whole_is_legal_and_fits(name: str, tmp_path: Path) -> None:
    answer = priced(name, tmp_path)
    assert answer["from"]["not_understood"] == []
    broken = {violation["rule"] for violation in answer["violations"]}
    wanted = (
        {"expert-mesh-divides"} if SMALLER.match(name) else REFUSED.get(name.removesuffix("_config"), set())
    )
    assert broken == wanted
    if not broken:
        memory = answer["memory"]
        assert (memory["peak_gib"] > memory["capacity_gib"]) == bool(FULL.match(name))


ASKING_MORE = {
    "glm45_355b_peft_16gpu": {"expert-mesh-divides", "experts-need-sequence-parallel"},
    "glm45_355b_sft_128gpu": {"expert-mesh-divides", "experts-need-sequence-parallel"},
    "gpt_oss_120b_sft_48gpu": {"biased-experts-whole"},
}
"""Recipes whose own layout Megatron-core refuses: experts over tp ranks that they do not name."""


def trained() -> list[str]:
    """Names of the recipes that train a model, and say how many accelerators their degrees take."""
    names = re.compile(r"_\d+gpu_h100_(?!.*(?:fp8mx|nvfp4))")
    known = ((name, known_recipe(name)) for name in recipe_names() if names.search(name))
    return [name for name, recipe in known if recipe is not None and not recipe.gpus]


@every("name", trained()[::EVERY])
def test_a_recipe_of_a_model_is_read_whole_and_is_legal(name: str, tmp_path: Path) -> None:
    answer = priced(name, tmp_path)
    assert answer["from"]["not_understood"] == []
    refused = next((rules for start, rules in ASKING_MORE.items() if name.startswith(start)), set())
    assert {violation["rule"] for violation in answer["violations"]} == refused
