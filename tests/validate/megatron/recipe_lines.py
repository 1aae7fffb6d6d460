"""The table of Megatron-Bridge's recipes, made by calling each of its functions: a line for a recipe.

``python -m tests.validate.megatron.recipe_lines [WORD ...]`` prints the lines of recipes whose name has all
the words; with ``--compare`` it prints where they differ from ``bridge_recipes.txt`` of
`planner.runtimes.megatron_bridge.reading`. MEGATRON_LM and MEGATRON_BRIDGE name checkouts, as for the tests
beside it. A recipe asks the Hub for its model: in its place stands a provider with the defaults of its class,
so that what a model's own provider has otherwise is not seen (`KINDS`; Muon's overlap and the experts of
dense hybrids, too).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.runtimes.megatron_bridge.reading import recipe_table
from planner.runtimes.megatron_bridge.reading.recipe_table import ON
from planner.runtimes.megatron_bridge.sections import RECIPES
from tests.validate.megatron.bridge_runner import Bridge

MODEL: Final = (
    *("pipeline_model_parallel_layout", "account_for_embedding_in_pipeline_split"),
    *("account_for_loss_in_pipeline_split", "num_layers_in_first_pipeline_stage"),
    *("num_layers_in_last_pipeline_stage", "cp_comm_type", "moe_token_dispatcher_type"),
    *("recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules"),
    *("mtp_num_layers", "cpu_offloading_num_layers", "cuda_graph_impl", "cuda_graph_scope"),
    *("apply_rope_fusion", "bias_activation_fusion", "gradient_accumulation_fusion"),
    *("cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "use_transformer_engine_op_fuser"),
    *("disable_parameter_transpose_cache", "fp8_output_proj", "moe_shared_expert_overlap"),
    *(
        "moe_flex_dispatcher_backend",
        "freeze_vision_model",
        "freeze_language_model",
        "freeze_vision_projection",
    ),
)
DDP: Final = (
    *("overlap_grad_reduce", "overlap_param_gather", "use_megatron_fsdp", "data_parallel_sharding_strategy"),
    "num_distributed_optimizer_instances",
)
OPTIMIZER: Final = (
    "optimizer", "use_precision_aware_optimizer", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype",
)  # fmt: skip
OVERLAP: Final = ("tp_comm_overlap", "overlap_moe_expert_parallel_comm", "delay_wgrad_compute")
MIXED: Final = ("fp8_param_gather", "fp4_param_gather", "fp8_dot_product_attention")
"""Fields of each section that the table may have, under their own names."""

SHORT: Final = {
    "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
    "vp": "virtual_pipeline_model_parallel_size", "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size", "etp": "expert_tensor_parallel_size", "sp": "sequence_parallel",
}  # fmt: skip
PRECISIONS: Final = {
    "delayed": "fp8-delayed", "tensorwise": "fp8", "blockwise": "fp8-block", "mxfp8": "mxfp8",
}  # fmt: skip
USUAL: Final = {
    "cross_entropy_fusion_impl": "native", "cuda_graph_impl": "none", "optimizer": "adam",
    "main_params_dtype": "torch.float32", "exp_avg_dtype": "torch.float32",
    "exp_avg_sq_dtype": "torch.float32", "data_parallel_sharding_strategy": "no_shard",
    "num_distributed_optimizer_instances": 1, "images": 1,
}  # fmt: skip
"""Values that are left out, beside 1, off and nothing; of `ON` that is on."""

SAID_OFF: Final = (
    *("cross_entropy_loss_fusion", "gradient_accumulation_fusion", "bias_activation_fusion"),
    "apply_rope_fusion",
)
"""Switches that are on by themselves."""

KINDS: Final = {"apply_rope_fusion", "bias_activation_fusion", "moe_token_dispatcher_type"}
"""Keys that a model's own provider decides where a recipe does not: they are not compared."""

OWN: Final = {
    "Qwen3.5": ("qwen_vl.qwen35_vl_provider", "Qwen35VLModelProvider", "Qwen35VLMoEModelProvider"),
    "Qwen3-VL": ("qwen_vl.qwen3_vl_provider", "Qwen3VLModelProvider", "Qwen3VLMoEModelProvider"),
    "Qwen2.5-VL": ("qwen_vl.qwen25_vl_provider", "Qwen25VLModelProvider", ""),
    "Ministral-3": ("ministral3.ministral3_provider", "Ministral3ModelProvider", ""),
}
"""Models of the Hub to module and classes of their own providers, dense and with experts."""

ALWAYS: Final = ("seq", "global", "micro", "mtp_num_layers", "recompute_num_layers")
"""Keys of which one too is said."""

LETTERS: Final = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
"""Megatron-core's letters of a layout."""


class FromHub:
    """Stands for ``AutoBridge``: a provider of the class that the library names, with its own defaults."""

    path = recipe = ""
    """Who is asked for, and by which recipe."""

    @classmethod
    def from_hf_pretrained(cls, path: str, **_: Any) -> FromHub:
        """Remember which model is asked for."""
        cls.path = str(path)
        return cls()

    def to_megatron_provider(self, load_weights: bool = True, **_: Any) -> Any:
        """Return a provider with the defaults of its class, and a vocabulary."""
        kind = provider_of(self.path)
        made: Any = object.__new__(kind)
        for field in dataclasses.fields(kind):
            if field.default is not dataclasses.MISSING:
                setattr(made, field.name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                setattr(made, field.name, field.default_factory())
            else:
                setattr(made, field.name, None)
        made.vocab_size = made.vocab_size or 128_256
        made.apply_rope_fusion = made.bias_activation_fusion = True
        if model := model_of(self.path, self.recipe):
            made.num_layers, made.hidden_size = model.num_layers, model.hidden
            made.num_moe_experts = model.expert_kinds[0].experts if model.expert_kinds else None
            made.mtp_num_layers = model.prediction.layers if model.prediction else None
        return made

    get_model_config = to_megatron_provider


def model_of(path: str, recipe: str) -> ModelSpec | None:
    """Return the model of the zoo that the Hub has by that name, or the table for that recipe."""
    known = recipe_table.known_recipe(recipe)
    for name in (path, known.model if known else ""):
        with contextlib.suppress(InputError):
            return load_model(name)
    return None


def provider_of(path: str) -> type:
    """Return the class of provider that a model of the Hub is built by: of Qwen3.5's its own."""
    module, kind = "gpt_provider", "GPTModelProvider"
    for name, (place, dense, sparse) in OWN.items():
        if name in path:
            module, kind = place, sparse if re.search(r"-A\d", path) else dense
    found: type = getattr(importlib.import_module(f"megatron.bridge.models.{module}"), kind)
    return found


def functions() -> Iterator[tuple[str, Any, bool]]:
    """Yield name and function of each recipe, and whether it is a benchmark's."""
    seen = set()
    for package in ("recipes", "perf_recipes"):
        root = importlib.import_module(f"megatron.bridge.{package}")
        for found in pkgutil.walk_packages(root.__path__, f"megatron.bridge.{package}."):
            try:
                module = importlib.import_module(found.name)
            except ImportError:
                continue
            for name, value in list(vars(module).items()):
                own = getattr(value, "__module__", "") == found.name
                public = name.endswith("_config") and callable(value) and not name.startswith("_")
                if own and public and (name, package) not in seen:
                    seen.add((name, package))
                    yield name, value, package == "perf_recipes"


def built(function: Any) -> Any:
    """Return what a recipe's function returns, its model from no Hub."""
    places = [
        patch.object(module, "AutoBridge", FromHub)
        for name, module in list(sys.modules.items())
        if name.startswith("megatron.bridge.") and hasattr(module, "AutoBridge")
    ]
    for place in places:
        place.start()
    try:
        return function()
    finally:
        for place in places:
            place.stop()


def words(config: Any, benchmark: bool) -> dict[str, Any]:
    """Return the keys of the table, with the values of a container."""
    model, mixed = config.model, config.mixed_precision
    named = isinstance(mixed, str)
    precision = precision_of(mixed)
    if benchmark:
        finish(config, precision)
    found: dict[str, Any] = {short: getattr(model, field, None) for short, field in SHORT.items()}
    length = getattr(config.dataset, "seq_length", None) or getattr(model, "seq_length", None)
    found |= {"seq": length, "global": config.train.global_batch_size}
    found |= {"micro": config.train.micro_batch_size, "precision": precision}
    sharded = config.ddp.use_distributed_optimizer or config.optimizer.use_distributed_optimizer
    found |= {"grad32": named or mixed.grad_reduce_in_fp32, "zero1": bool(sharded)}
    for section, keys in ((model, MODEL), (config.ddp, DDP), (config.optimizer, OPTIMIZER), (mixed, MIXED)):
        found |= {key: getattr(section, key, None) for key in keys}
    found |= {key: getattr(config.comm_overlap, key, None) for key in OVERLAP}
    for key in ("overlap_grad_reduce", "overlap_param_gather"):
        if (
            config.comm_overlap is not None and config.ddp.use_distributed_optimizer
        ):  # training/comm_overlap.py
            later = getattr(config.comm_overlap, key, None)
            found[key] = True if later is None else later
    found["cuda_graph_scope"] = found["cuda_graph_scope"] or getattr(model, "cuda_graph_modules", None)
    peft = getattr(config, "peft", None)
    if peft is not None:
        found |= {
            "lora_dim": getattr(peft, "dim", None),
            "lora_targets": getattr(peft, "target_modules", None),
        }
    data = config.dataset
    if hasattr(data, "image_size"):
        found |= {"images": data.num_images, "image_size": data.image_size}
    elif hasattr(model, "freeze_vision_model"):
        found |= {"images": "1"}
    found |= {key: None for key, there in in_effect(config).items() if not there}
    if isinstance(layout := found["pipeline_model_parallel_layout"], list):
        stages = ("".join(LETTERS[one] for one in stage) for stage in layout)
        found["pipeline_model_parallel_layout"] = "|".join(stages)
    return {key: plain(value) for key, value in found.items() if not usual(key, plain(value))}


def finish(config: Any, precision: str) -> None:
    """Do what the scripts do to a benchmark's container before a run.

    References
    ----------
    .. [1] Megatron-Bridge 067f987d, ``scripts/performance/utils/utils.py``, ``finalize_config_overrides``;
       ``scripts/training/run_recipe.py``, ``_apply_benchmark_runtime_defaults``.
    """
    model = config.model
    backend = getattr(model, "moe_flex_dispatcher_backend", None)
    if backend in ("deepep", "hybridep") and getattr(model, "num_moe_experts", None):
        model.moe_token_dispatcher_type, model.moe_shared_expert_overlap = "flex", False
    elif backend is None and model.moe_token_dispatcher_type == "flex":
        model.moe_token_dispatcher_type = "alltoall"
    if precision == "bf16" and config.optimizer.optimizer == "adam":
        config.optimizer.use_precision_aware_optimizer = True


def in_effect(config: Any) -> dict[str, bool]:
    """Return for keys that hang on others whether they decide anything."""
    model, low = config.model, precision_of(config.mixed_precision) != "bf16"
    experts, graphs = bool(model.num_moe_experts), model.cuda_graph_impl in ("transformer_engine", "local")
    flexible = experts and model.moe_token_dispatcher_type == "flex"
    alone = getattr(config.ddp, "use_megatron_fsdp", False)
    return {
        "moe_token_dispatcher_type": experts, "moe_flex_dispatcher_backend": flexible,
        "moe_shared_expert_overlap": experts, "fp8_param_gather": low, "fp4_param_gather": low,
        "cuda_graph_scope": graphs, "data_parallel_sharding_strategy": alone,
        "cpu_offloading_num_layers": bool(getattr(model, "cpu_offloading", False)),
        "fp8_dot_product_attention": low, "recompute_modules": model.recompute_granularity == "selective",
    }  # fmt: skip


def precision_of(mixed: Any) -> str:
    """Return the planner's name of a precision, of Bridge's recipe or its name."""
    if isinstance(mixed, str):
        return next(ours for ours, theirs in RECIPES.items() if theirs == mixed)
    if getattr(mixed, "fp4", None):
        return "nvfp4"
    return PRECISIONS[mixed.fp8_recipe] if getattr(mixed, "fp8", None) else "bf16"


def plain(value: Any) -> Any:
    """Return a value as the table says it."""
    if isinstance(value, list | tuple | set):
        return "+".join(str(getattr(one, "name", one)) for one in value) if value else None
    text = str(value)
    return text if text.startswith("torch.") else getattr(value, "name", value)


def usual(key: str, value: Any) -> bool:
    """Whether a value is left out of the table."""
    if key in ON:
        return value is True
    if key in SAID_OFF:
        return value is not False
    if key == "etp":
        return value is None
    if value is None or value is False or (type(value) is int and value == 0):
        return True
    return (type(value) is int and value == 1 and key not in ALWAYS) or value == USUAL.get(key)


def line(name: str, model: str, said: dict[str, Any]) -> str:
    """Return a line of the table."""
    return " ".join([name, model, *(f"{key}={text(value)}" for key, value in said.items())])


def text(value: Any) -> str | None:
    """Return a value as a line has it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def table_words(name: str) -> dict[str, str]:
    """Return the keys of a line of the table; none where a recipe has no price, or another's line."""
    path = Path(recipe_table.__file__).with_name("bridge_recipes.txt")
    lines = (one.split() for one in path.read_text(encoding="utf-8").splitlines())
    found = next((one for one in lines if one and one[0] == name and one[1] not in ("=", "?")), ["", ""])
    return dict(word.split("=", 1) for word in found[2:])


def answers(wanted: list[str], compare: bool) -> Iterator[str]:
    """Yield the lines of recipes whose names have all words, or where they differ."""
    for name, function, benchmark in functions():
        if not all(word in name for word in wanted):
            continue
        FromHub.recipe, mark = name, "!" if benchmark else ""
        try:
            said = words(built(function), benchmark)
        except Exception as error:
            yield f"{name}{mark} ? {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            continue
        if not compare:
            yield line(name + mark, FromHub.path or "-", said)
            continue
        known = table_words(name + mark)
        for key in sorted({*said, *known} - KINDS if known else ()):
            if (one := text(said.get(key))) != (other := known.get(key)):
                yield f"{name}: {key}: called {one}, in the table {other}"


def main(arguments: list[str]) -> None:
    """Print the answers."""
    Bridge(os.environ["MEGATRON_BRIDGE"], os.environ["MEGATRON_LM"])
    wanted = [one for one in arguments if not one.startswith("--")]
    for answer in answers(wanted, "--compare" in arguments):
        sys.stdout.write(f"{answer}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
