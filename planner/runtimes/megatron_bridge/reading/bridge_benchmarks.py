"""Which benchmark's recipe Megatron-Bridge's launcher takes for its selectors, and what it sets after them.

References
----------
.. [1] Megatron-Bridge 067f987d, scripts/performance/run_script.py, ``_prepare_perf_recipe``; utils/utils.py,
   ``get_perf_optimized_recipe`` and ``_DEFAULT_GPU_COUNT_OVERRIDES``; utils/overrides.py,
   ``set_user_overrides`` and ``set_post_overrides``.
.. [2] The same, src/megatron/bridge/recipes/deepseek/h100/deepseek_v3.py,
   ``_get_deepseek_v3_pipeline_layout``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from planner.runtimes.megatron_bridge.reading.recipe_table import BridgeRecipe, known_recipe, recipe_names
from planner.runtimes.megatron_bridge.reading.recipe_words import Words
from planner.runtimes.megatron_lm.table import DEGREE_FIELDS, VIRTUAL

SMALLER_DEFAULTS: Final = {
    r"llama3_8b_(?:(?:b200|gb200|h100)_(?:bf16|fp8cs)|gb300_(?:bf16|fp8cs|fp8mx|nvfp4))": 8,
    r"qwen3_30b_a3b_g?b[23]00_(?:bf16|fp8cs)": 8,
    r"qwen3_30b_a3b_h100_(?:bf16|fp8cs)": 16,
    r"nemotronh_56b_(?:b200|gb300)_fp8cs": 64,
}
"""Model, accelerator and precision whose default recipe is not the one of most accelerators. [accelerator]"""

LAYOUTS: Final = ((4, 1), (8, 1), (4, 2), (16, 1), (8, 2), (4, 4))
"""Stages and chunks for which DeepSeek-V3 has a layout: its layers dealt as if they were 64."""

PIPELINE: Final = DEGREE_FIELDS["pp"]
LAYERS: Final = 61
"""Layers of DeepSeek-V3. [layer]"""

DEALT: Final = 64
"""Layers as which they are dealt; the last chunk has what is left. [layer]"""


def benchmark_recipe(words: Words) -> tuple[str, BridgeRecipe | None]:
    """Return the name that the selectors make, and the recipe that is taken for it.

    Where the accelerators that are asked for have no recipe of their own, it is the default one of others.
    """
    task, size = words.first("--task") or "pretrain", words.first("-ng", "--num_gpus")
    dtype = (words.first("-c", "--compute_dtype") or "bf16").lower().replace("_", "")
    variant = words.first("-cv", "--config_variant") or ""
    end = "" if variant.lower() in ("", "v1", "v2") else f"_{variant.lower()}"
    stem, gpu = stem_of(words) or "", words.first("-g", "--gpu") or ""
    name = f"{stem}_{task}_{size}gpu_{gpu.lower()}_{dtype}{end}_config"
    found = known_recipe(name)
    if found is not None:
        return name, found
    kind = f"{gpu.lower()}_{dtype}{end}"
    like = re.compile(rf"{re.escape(stem)}_{re.escape(task)}_(\d+)gpu_{re.escape(kind)}_config")
    sizes = {int(match[1]): other for other in recipe_names() if (match := like.fullmatch(other))}
    smaller = (size for known, size in SMALLER_DEFAULTS.items() if re.fullmatch(known, f"{stem}_{kind}"))
    usual = next(smaller, max(sizes, default=0))
    return name, known_recipe(sizes[usual]) if usual in sizes else None


def stem_of(words: Words) -> str | None:
    """Return the model that the selectors name; releases before 0.3 name it in two parts."""
    parts = [words.first(flag) for flag in ("--model_name", "--model_size")]
    older = "_".join(part for part in parts if part) if parts[1] else None
    name = words.first("-mr", "--model_recipe_name") or older
    return name.lower() if name else None


def after_selectors(words: Words, recipe: BridgeRecipe, fields: dict[str, Any]) -> list[str]:
    """Set what follows from stages that are asked for, and from a recipe of other accelerators; say it."""
    told: list[str] = []
    staged = ("-pp", "--pipeline_model_parallel_size", "-vp", "--virtual_pipeline_model_parallel_size")
    layout = "model.pipeline_model_parallel_layout"
    stages = (fields.get(f"model.{PIPELINE}") or 1, fields.get(f"model.{VIRTUAL}") or 1)
    asked = words.first(*staged) is not None and words.first("--pipeline_model_parallel_layout") is None
    if recipe.model == "deepseek-v3" and asked and stages in (*LAYOUTS, (1, 1)):
        fields[layout] = None if stages == (1, 1) else _layout(*stages)
    size = words.first("-ng", "--num_gpus")
    if recipe.gpus is not None and size is not None and str(recipe.gpus) != size:
        told.append(f"no recipe of {size} accelerators: {recipe.name}, which the launcher takes in its place")
        if fields.get("mixed_precision") == "bf16_mixed" and "optimizer.optimizer" not in fields:
            fields["optimizer.use_precision_aware_optimizer"] = True
    return told


def _layout(stages: int, chunks: int) -> str:
    """Return the layout string of DeepSeek-V3.

    Examples
    --------
    >>> _layout(4, 1), _layout(8, 2)
    ('Et*16|(t*16|)*2t*13mL', 'Et*4|(t*4|)*14tmL')
    """
    each = DEALT // (stages * chunks)
    rest = LAYERS - each * (stages * chunks - 1)
    last = "t" if rest == 1 else f"t*{rest}"
    return f"Et*{each}|(t*{each}|)*{stages * chunks - 2}{last}mL"
