"""A Python program of NeMo 2.0, read by its syntax: a recipe by name, or a trainer with MegatronStrategy.

References
----------
.. [1] NeMo 8cfedd72, nemo/lightning/pytorch/strategies/megatron_strategy.py, ``MegatronStrategy``; what a
   program leaves out is its default, and the data's that of nemo/collections/llm/gpt/data/mock.py.
.. [2] The same, nemo/lightning/pytorch/plugins/mixed_precision.py: its ``grad_reduce_in_fp32``
   replaces DDP's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem, nearest
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.python_objects import objects
from planner.runtimes.imports.python_values import Made, Unread
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.zoo import names_of_shape
from planner.runtimes.megatron_bridge.reading import core_fields
from planner.runtimes.megatron_bridge.reading.bridge import FP8_RECIPE
from planner.runtimes.megatron_bridge.reading.bridge_launch import read_fields
from planner.runtimes.megatron_bridge.reading.nemo_perf import benchmarked, put, unfollowed
from planner.runtimes.megatron_bridge.reading.recipe_table import BridgeRecipe, nemo_names, nemo_recipe
from planner.runtimes.megatron_bridge.sections import GATHERS
from planner.runtimes.megatron_lm.table import DEGREE_FIELDS, VIRTUAL

RECIPE: Final = re.compile(r"(?:.*\.)?(\w+)\.(pretrain|finetune)_recipe")
STRATEGY: Final = "MegatronStrategy"
TRAINERS: Final = re.compile(r"(?:.*\.)?(?:\w+_)?trainer")
PARAMETERS: Final = {
    "tensor_parallelism": DEGREE_FIELDS["tp"],
    "pipeline_parallelism": DEGREE_FIELDS["pp"],
    "virtual_pipeline_parallelism": VIRTUAL,
    "context_parallelism": DEGREE_FIELDS["cp"],
    "expert_parallelism": DEGREE_FIELDS["ep"],
    "sequence_parallelism": "sequence_parallel",
}
"""What the trainer functions of NeMo's recipes call the fields of a strategy."""

DENSE: Final = {name: DEGREE_FIELDS[name] for name in ("tp", "pp", "cp")}
"""The degrees of every strategy, and their fields."""

CONFIG: Final = re.compile(r"(?:.*\.)?(\w+?)Config(\w*)")
STEMS: Final = {
    "deepseekv3": "deepseek_v3", "deepseekv2": "deepseek_v2", "deepseekv2lite": "deepseek_v2_lite",
    "llama4experts16": "llama4_e16", "llama4experts128": "llama4_e128", "phi3_mini": "phi3_mini_4k_instruct",
    "llama31nemotron70b": "llama31_nemotron_70b", "llama31nemotronnano8b": "llama31_nemotron_nano_8b",
    "gpt_175b": "gpt3_175b", "gptoss_20b": "gpt_oss_20b", "gptoss_120b": "gpt_oss_120b",
}  # fmt: skip
"""Recipes whose name is not that of their configuration class."""

PRECISIONS: Final = {"bf16_with_fp8_mixed": "bf16_with_fp8_delayed_scaling_mixed", "fp16_mixed": "fp16_mixed"}
EIGHT: Final = {"delayed": "delayed", "tensorwise": "current", "blockwise": "subchannel"}
DATA: Final = {"seq_length": 2048, "micro_batch_size": 4, "global_batch_size": 8}
ADAPTERS: Final = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")

STILL: Final = re.compile(
    r"ckpt_.*|save_.*|gradient_as_bucket_view|pipeline_dtype|find_unused_.*|parallel_.*|progress_.*|replace_.*"
    r"|restore_.*|lazy_init|data_sampler|cluster_environment|checkpoint_io|no_ddp_communication_hook|setup_optimizers"
    r"|init_model_parallel|megatron_log_level|use_te_rng_tracker|use_gloo_process_groups|mixed_precision|fsdp|ddp"
)
"""Fields of a strategy that decide no price, or are read by themselves."""


def fits(source: Source) -> bool:
    """Return whether a program builds what NeMo trains."""
    return "nemo" in source.text and _started(source.text) is not None


def _started(text: str) -> Made | None:
    """Return the first thing made that has a model's layout."""
    return next((made for made in objects(text) if _recipe_of(made) or _strategy(made)), None)


def _recipe_of(made: Made) -> tuple[str, str] | None:
    found = RECIPE.fullmatch(made.kind)
    return (found[1], found[2]) if found and "trainer" not in made.kind else None


def _strategy(made: Made) -> dict[str, Any] | None:
    """Return the fields of the strategy of what has a trainer."""
    trainer = made.fields.get("trainer")
    if not isinstance(trainer, Made):
        return None
    strategy = trainer.fields.get("strategy")
    if isinstance(strategy, Made) and strategy.kind.endswith(STRATEGY):
        return strategy.fields
    own = {ours: trainer.fields[name] for name, ours in PARAMETERS.items() if name in trainer.fields}
    own |= strategy.fields if isinstance(strategy, Made) and not strategy.kind else {}
    return own if TRAINERS.fullmatch(trainer.kind) and own else None


def read(source: Source) -> Imported:
    """Return what the program says; a recipe that it names gives what it leaves out."""
    made = _started(source.text)
    assert made is not None
    reader = _Reader(made, source)
    return reader.imported()


def _part(made: Made, *names: str) -> dict[str, Any]:
    for name in names:
        inner = made.fields.get(name)
        if not isinstance(inner, Made):
            return {}
        made = inner
    return made.fields


class _Reader:
    def __init__(self, made: Made, source: Source) -> None:
        self.made, self.source = made, source
        self.notes: list[str] = []
        self.faults: list[tuple[str, Problem]] = []
        self.unknown: list[str] = []

    def fault(self, option: str, key: str, found: str, expected: str, near: str = "") -> None:
        self.faults.append((option, Problem(f"{self.source.where}: {key}", found, expected, near)))

    def imported(self) -> Imported:
        benchmarked(self.made)
        recipe = self.base()
        self.doubtful()
        self.elsewhere(recipe)
        fields = {key: value for key, value in recipe.fields.items() if key not in ("nodes", "ranks")}
        fields |= self.said(bool(recipe.fields)) | {FP8_RECIPE: "delayed"}
        trainer = _part(self.made, "trainer")
        nodes = trainer.get("num_nodes", self.made.fields.get("num_nodes", recipe.fields.get("nodes")))
        ranks = trainer.get("devices", trainer.get("num_gpus_per_node"))
        ranks = (
            self.made.fields.get("num_gpus_per_node", recipe.fields.get("ranks", 8))
            if ranks is None
            else ranks
        )
        nodes, ranks = ((size if type(size) is int and 0 < size < 10**6 else None) for size in (nodes, ranks))
        if not recipe.model:
            return self.bare(fields)
        training = Training("megatron-lm", {}, nodes, ranks, None, ())
        found, record = read_fields(recipe, fields, training, self.source.where)
        notes = (
            f"a program of NeMo 2.0, priced as Megatron-Bridge: {recipe.name}",
            *self.notes,
            *found.notes,
        )
        own = {problem.where for _, problem in self.faults}
        kept = tuple(pair for pair in found.faults if pair[1].where not in own)
        found = replace(found, notes=notes, unknown=tuple(self.unknown), faults=(*self.faults, *kept))
        if record is None or recipe.model in names_of_shape(record, self.source.where):
            return replace(found, model_name=recipe.model)
        return with_record(found, record, self.source.path, "model.vocab_size")

    def doubtful(self) -> None:
        """Ask for model and degrees of a layout that is made under a condition that is not known."""
        if not self.made.doubt:
            return
        found = f"a layout that is made {self.made.doubt}"[:160]
        self.fault("model", "model", found, "the model that runs, as MODEL before --from")
        for option, name in DENSE.items():
            self.fault(option, name, found, f"the degree that runs: --{option} N")

    def elsewhere(self, recipe: BridgeRecipe) -> None:
        """Ask for degrees of a recipe that functions of other files, or its fast mode, may have changed."""
        changers = unfollowed(self.made)
        mode = self.made.fields.get("performance_mode", False)
        told = recipe.name.startswith("mixtral") or "(pretrain)" not in recipe.name
        if mode is not False and told and _recipe_of(self.made):
            changers.append("performance_mode")
        strategy = _part(self.made, "trainer", "strategy")
        inner = DEGREE_FIELDS["ep"]
        names = DENSE | ({"ep": inner} if f"model.{inner}" in recipe.fields else {})
        for option, name in names.items():
            if changers and name not in strategy:
                self.fault(option, name, f"what {changers[0]} makes of it", f"the degree, or --{option} N")

    def base(self) -> BridgeRecipe:
        """Return the recipe that the program names, or the model of its configuration with nothing set."""
        named = _recipe_of(self.made)
        if named is not None:
            scheme = self.made.fields.get("peft_scheme", "lora")
            if named[1] == "finetune" and isinstance(scheme, Unread | Made):
                self.fault("method", "peft_scheme", str(scheme)[:80], "'lora', or None for all weights")
            length = self.made.fields.get("seq_length") or None
            packed = self.made.fields.get("packed_sequence") is True and "seq_length" not in self.made.fields
            if length is not None or packed:
                put(self.made, ("data", "seq_length"), 4096 if packed else length)
            full = scheme is None or str(scheme).lower() == "none"
            kind = "pretrain" if named[1] == "pretrain" else "sft" if full else "lora"
            found = nemo_recipe(named[0], kind)
            if found is not None:
                return found
            near = nearest(named[0], nemo_names())
            self.fault("model", "recipe", repr(named[0][:80]), "a recipe whose model is in the zoo", near)
            return BridgeRecipe(named[0], "", {})
        name = _model_name(self.made.fields.get("model"))
        known = nemo_recipe(_stem(name), "pretrain") or nemo_recipe(_stem(name), "sft")
        if known is None:
            shown = repr(name[:80]) if name else "nothing"
            self.fault("model", "model", shown, "a configuration class of a model that is in the zoo")
            return BridgeRecipe("", "", {})
        return BridgeRecipe("its own layout", known.model, self.trainer_of(known))

    def trainer_of(self, known: BridgeRecipe) -> Mapping[str, Any]:
        """Return what a recipe has whose trainer the program takes; nothing where the trainer is its own."""
        trainer = self.made.fields.get("trainer")
        if not isinstance(trainer, Made) or trainer.kind.endswith("Trainer"):
            return {}
        place = trainer.kind.rpartition(".")[0]
        if ".recipes." not in f".{place}." and not nemo_recipe(place, "pretrain"):
            return {}
        base = nemo_recipe(place.rpartition(".")[2], "pretrain") or known
        self.notes.append(f"{trainer.kind[-60:]}: what the file leaves out is that of the recipe {base.name}")
        return base.fields

    def bare(self, fields: Mapping[str, Any]) -> Imported:
        """Return the faults of a program whose model is not known."""
        note = "a program of NeMo 2.0, priced as Megatron-Bridge"
        return Imported("megatron-bridge", {}, {}, notes=(note,), faults=tuple(self.faults))

    def said(self, based: bool) -> dict[str, Any]:
        """Return the fields that the program sets, each below its section."""
        fields: dict[str, Any] = {}
        strategy = _strategy(self.made) or _part(self.made, "trainer", "strategy")
        for name, value in strategy.items():
            if not STILL.fullmatch(name):
                self.keep(fields, f"model.{name}", value)
        for name, value in {**_part(self.made, "model", "config"), **_model_fields(self.made)}.items():
            if name not in ("seq_length", "parallel_output") and not isinstance(value, Made):
                self.keep(fields, f"model.{name}", value)
        data = _part(self.made, "data")
        for name, default in DATA.items():
            place = "model" if name == "seq_length" else "train"
            if name in data or not based:
                self.keep(fields, f"{place}.{name}", data.get(name, default))
            if name not in data and not based:
                self.notes.append(f"no {name} of the data: {default}, as NeMo's data module has it")
        if not based:
            self.missing(strategy)
        return fields | self.sharding(strategy, based) | self.precision(based) | self.adapters()

    def keep(self, fields: dict[str, Any], key: str, value: Any) -> None:
        """Keep a field that is understood; of others tell what may matter."""
        name = key.partition(".")[2]
        known = any(
            name in table
            for table in (core_fields.SAME, core_fields.OTHER, core_fields.SWITCHES, core_fields.OFF)
        )
        if known and not (
            isinstance(value, Unread) and (name in core_fields.SWITCHES or name in core_fields.OFF)
        ):
            fields[key] = tuple(value) if isinstance(value, list) and name != "moe_layer_freq" else value
        elif name in ("recompute_modules", "window_size", "cp_comm_type", "num_query_groups") or (
            name in core_fields.SETTING_FIELDS and not isinstance(value, Unread | Made)
        ):
            fields[key] = value
        elif value not in (None, False) and not isinstance(value, Made):
            self.unknown += [name] if not core_fields.WITHOUT_EFFECT.fullmatch(name) else []

    def missing(self, strategy: Mapping[str, Any]) -> None:
        """Ask for degrees that a trainer of another file decides."""
        trainer = self.made.fields.get("trainer")
        if isinstance(trainer, Made) and isinstance(trainer.fields.get("strategy"), Made):
            return
        for option, name in DENSE.items():
            if name not in strategy:
                self.fault(option, name, "nothing: another file decides it", f"the degree, or --{option} N")

    def sharding(self, strategy: Mapping[str, Any], based: bool) -> dict[str, Any]:
        """Return what the strategy says of data parallelism, and the optimizer of its states."""
        ddp, fields = strategy.get("ddp"), dict[str, Any]()
        own = ddp.fields if isinstance(ddp, Made) else {}
        for name in ("overlap_grad_reduce", "overlap_param_gather"):
            if name in own or (isinstance(ddp, Made) and ddp.kind) or not based:
                fields[f"ddp.{name}"] = own.get(name) is True
        if strategy.get("fsdp") is not None:
            kind = own.get("data_parallel_sharding_strategy", "optim_grads_params")
            fields |= {"ddp.use_megatron_fsdp": True, "ddp.data_parallel_sharding_strategy": kind}
        states = _part(self.made, "optim", "config")
        optimizer = self.made.fields.get("optim")
        if "use_distributed_optimizer" in states:
            fields["ddp.use_distributed_optimizer"] = states["use_distributed_optimizer"] is True
        elif not based:
            sharded = isinstance(optimizer, Made) and "distributed_fused_adam" in optimizer.kind
            fields["ddp.use_distributed_optimizer"] = sharded
        if not based:
            fields["optimizer.optimizer"] = "adam"
        for name in ("optimizer", "use_precision_aware_optimizer", "exp_avg_dtype", "exp_avg_sq_dtype"):
            if name in states and states[name] is not False:
                fields[f"optimizer.{name}"] = states[name]
        return fields

    def precision(self, based: bool) -> dict[str, Any]:
        """Return the recipe of mixed precision."""
        plugin = self.made.fields.get("plugins", _part(self.made, "trainer").get("plugins"))
        plugin = plugin[0] if isinstance(plugin, list) and plugin else plugin
        if not isinstance(plugin, Made):
            return {} if based else {"mixed_precision": "bf16_mixed"}
        name, said = plugin.kind.rpartition(".")[2], plugin.fields
        recipe = PRECISIONS.get(name, name if name.endswith("_mixed") else "bf16_mixed")
        if said.get("precision") in ("16-mixed", 16, "16"):
            recipe = "fp16_mixed"
        if said.get("fp8") is not None:
            kind = str(said.get("fp8_recipe", "delayed"))
            recipe = (
                "bf16_with_mxfp8_mixed"
                if kind == "mxfp8"
                else f"bf16_with_fp8_{EIGHT.get(kind, kind)}_scaling_mixed"
            )
        if recipe not in core_fields.PRECISIONS:
            self.fault("precision", "plugins", repr(name[:80]), "a known mixed precision, or --precision")
            recipe = "bf16_mixed"
        fields: dict[str, Any] = {"mixed_precision": recipe} if name or said.get("fp8") or not based else {}
        if recipe in GATHERS and fields:
            usual = next((said[key] for key in ("fp8_param_gather", "fp8_param") if key in said), None)
            fields[f"mixed_precision.{GATHERS[recipe]}"] = name.endswith("_mixed") if usual is None else usual
        if "grad_reduce_in_fp32" in said or not based:
            full = said.get("grad_reduce_in_fp32", name.endswith("_mixed") and not name.startswith("fp16"))
            fields["mixed_precision.grad_reduce_in_fp32"] = full is True
        return fields

    def adapters(self) -> dict[str, Any]:
        """Return the fields of LoRA."""
        peft = self.made.fields.get("peft")
        if not isinstance(peft, Made):
            return {}
        kind = peft.kind.rpartition(".")[2]
        if kind and kind != "LoRA" and "PEFT_STR2CLS" not in peft.kind:
            self.fault("method", "peft", kind[:80], "LoRA, or --method full")
            return {}
        if not kind:
            return {
                f"peft.{name}": peft.fields[name] for name in ("dim", "target_modules") if name in peft.fields
            }
        targets = peft.fields.get("target_modules", list(ADAPTERS))
        return {"peft": "LoRA", "peft.dim": peft.fields.get("dim", 32), "peft.target_modules": targets}


def _model_fields(made: Made) -> dict[str, Any]:
    """Return the fields of a configuration that is the model's first argument."""
    model = made.fields.get("model")
    first = model.args[0] if isinstance(model, Made) and model.args else None
    return first.fields if isinstance(first, Made) else {}


def _model_name(model: Any) -> str:
    """Return the configuration class of a model, or the name of the recipe whose model it is."""
    for _ in range(4):
        if not isinstance(model, Made):
            break
        if CONFIG.fullmatch(model.kind):
            return model.kind.rpartition(".")[2]
        inner = model.fields.get("config", model.args[0] if model.args else None)
        if model.kind.endswith("model"):
            version = model.fields.get("version", inner if isinstance(inner, str) else None)
            return str(version or model.kind.rpartition(".")[0].rpartition(".")[2])
        model = inner
    return ""


def _stem(kind: str) -> str:
    """Return the name of a recipe whose model a configuration class has.

    Examples
    --------
    >>> _stem("Llama3Config8B"), _stem("Qwen3Config30B_A3B"), _stem("DeepSeekV3Config"), _stem("qwen3_8b")
    ('llama3_8b', 'qwen3_30b_a3b', 'deepseek_v3', 'qwen3_8b')
    """
    found = CONFIG.fullmatch(kind)
    if found is None:
        return kind
    family, size = found[1].lower(), found[2].lower()
    name = f"{family}_{size}" if size else family
    return STEMS.get(name, name)


ENTRY: Final = FileFormat("a NeMo 2.0 .py", (".py",), fits, read)
