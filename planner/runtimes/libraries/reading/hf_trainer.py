"""Arguments of Hugging Face's Trainer, and of TRL, as the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass, replace
from planner.runtimes.imports import script_arguments
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import PEFT_DEFAULT, say_adapter
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out, with_own_dtypes
from planner.runtimes.libraries.reading.trainer_programs import MODELS
from planner.units import is_whole

LENGTHS: Final = (
    "block_size", "max_length", "max_seq_length", "model_max_length", "max_seq_len", "cutoff_len",
    "seq_length",
    "max_source_length",
)  # fmt: skip
"""What scripts of the Trainer call the tokens that a sequence is cut to."""

RECOMPUTES: Final = ("gradient_checkpointing", "use_gradient_checkpointing", "enable_gradient_checkpointing")
RANKS: Final = ("lora_r", "lora_rank", "lora_dim")
TARGETS: Final = ("lora_target_modules", "lora_target", "target_modules")
SWITCHES: Final = ("use_peft", "use_peft_lora", "use_lora", "lora_enable", "lora")


LORA_ENABLE: Final = "lora_enable"
LLAVA: Final = (64, ("all",), 0.05)
"""The switch of LLaVA and its kin, and what their adapters have where nothing is said: rank, layers, dropout
(haotian-liu/LLaVA c121f043, llava/train/train.py, ``TrainingArguments`` and ``find_all_linear_names``)."""


@dataclass(frozen=True)
class Dialect:
    """The defaults of one family of scripts."""

    length: int | None = None
    """Tokens of a sequence where nothing is said."""
    recompute: bool = False
    """Whether layers are recomputed where nothing is said."""
    precision: str = "fp32"
    """Numbers that it computes in where nothing is said."""
    packed: bool = False
    """Whether it fills sequences up, whatever ``packing`` says."""
    rank: int = 8
    """Rank of adapters where nothing is said."""
    dropout: float = 0.0
    """Share of their input that adapters drop where nothing is said."""
    loads: str = ""
    """Numbers in which weights are loaded where nothing is said; empty for a script's own."""
    full: str = ""
    """The switch without which it trains adapters on 4 bits; empty where adapters are asked for."""


TRAINER: Final = Dialect()
"""transformers' own ``TrainingArguments``; a script's length is its own."""

CLM: Final = Dialect(length=1024, packed=True)
"""``run_clm.py`` of transformers' examples: blocks of 1,024 tokens where ``block_size`` is not said."""

TRL: Final = Dialect(length=1024, recompute=True, precision="bf16", rank=16, dropout=0.05, loads="float32")
"""TRL's ``SFTConfig`` and ``ModelConfig`` (trl/trainer/sft_config.py, model_config.py)."""

QLORA: Final = Dialect(recompute=True, rank=64, full="full_finetune")
"""QLoRA's own script (https://github.com/artidoro/qlora, qlora.py, ``TrainingArguments``)."""

DIALECTS: Final = {
    "qlora.py": QLORA,
    "run_clm.py": CLM,
    "run_clm_lora.py": CLM,
    "sft.py": TRL,
    "run_sft.py": TRL,
}
"""Scripts by name; others have transformers' own defaults."""

OTHERS: Final = frozenset(
    ("dpo", "grpo", "kto", "orpo", "reward", "rloo", "ppo", "gkd", "cpo", "bco", "prm", "nash", "xpo",
     "simpo", "rlhf")
)  # fmt: skip
"""Commands of TRL, and words in names of programs, that train with rewards or preferences."""

UNPRICED: Final = ("a training with rewards or preferences", "next-token training, which is priced")
"""What is found, and what is expected instead."""

TRL_KEYS: Final = frozenset(
    {"per_device_train_batch_size", "gradient_accumulation_steps", "max_length", "max_seq_length",
     "learning_rate",
     "use_peft", "lora_r", "dataset_name", "dataset_mixer", "packing", "num_train_epochs", "output_dir"}
)  # fmt: skip
REWARDED: Final = (
    *("beta", "reward_funcs", "num_generations", "max_completion_length", "max_prompt_length", "loss_type"),
    *("ref_model", "ref_model_name_or_path", "reference_model", "dpo_beta"),
)
SEEING: Final = (
    *("vision_tower", "mm_vision_tower", "vision_model_name_or_path", "mm_tunable_parts", "image_folder"),
)
"""What LLaVA and its kin say beside the language model."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has arguments of TRL or the Trainer."""
    return "model_name_or_path" in tree and len(TRL_KEYS & set(tree)) >= 2


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch, dialect: Dialect = TRL) -> Imported:
    """Return what arguments say, by the names of Hugging Face's parser."""
    sheet = Sheet(str(path), _of_model(flat(tree)))
    rewarded = [key for key in REWARDED if key in tree and str(tree[key]) not in ("nll", "chunked_nll")]
    if rewarded:
        sheet.fault(rewarded[0], *UNPRICED)
    _with_images(sheet)
    trainer.batch(sheet, "per_device_train_batch_size", 8)
    packed = sheet.has("packing", "group_texts", "packed") or dialect.packed
    key = next(
        (key for key in LENGTHS if key in sheet.values), "max_length" if dialect.length else "sequence length"
    )
    sheet.seen.update(LENGTHS)
    trainer.length(sheet, key, dialect.length, packed)
    plain = sheet.values.get("bf16") is not None
    trainer.precision(sheet, "fp32" if plain else dialect.precision, said=dialect.precision == "bf16")
    trainer.optimizer(sheet, "optim")
    again = [key for key in RECOMPUTES if key in sheet.values]
    trainer.recompute(sheet, again[0] if again else RECOMPUTES[0], dialect.recompute)
    _method(sheet, dialect)
    loaded = _loaded(sheet)
    if loaded == "bfloat16" and plain and not sheet.has("bf16", "fp16"):
        sheet.say("precision", "bf16", "bf16")
        trainer.own_bfloat16(sheet, "dtype")
    sheet.seen.update(key for key in ("loss_type",) if str(tree.get(key)) == "nll")
    _unpriced(sheet)
    trainer.told_kernels(sheet)
    model = model_named(sheet, path, *(name.lstrip("-") for name in MODELS if "-" not in name.lstrip("-")))
    sheet.ignore(script_arguments.WITHOUT_EFFECT)
    found = laid_out(sheet, tree, path, launch, model)
    if "method" in found.options:
        return _with_base(found, loaded, loaded or dialect.loads)
    return with_own_dtypes(found) if loaded == "bfloat16" else found


WITHIN: Final = ("model_init_kwargs.", "model_kwargs.")
"""What arguments of the model's loading stand below, in files of TRL and of the alignment handbook."""
TUNED: Final = "tune_type_llm"
TUNINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "full": {"use_lora": "false"}, "lora": {"use_lora": "true", "lora_target_modules": "all"},
    "qlora": {"use_lora": "true", "use_4bit": "true", "lora_target_modules": "all"},
    "frozen": {"use_lora": "false", "freeze_llm": "true"},
}  # fmt: skip
"""How TinyLLaVA trains its language model (https://github.com/TinyLLaVA/TinyLLaVA_Factory,
tinyllava/utils/arguments.py), in the words of others."""
PARTS: Final = ("source_max_len", "target_max_len")
"""Lengths of question and answer, which QLoRA's script and its kin add up."""


def _of_model(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with the arguments of the model's loading, and the sum of two lengths, by usual names."""
    inner = {
        key.removeprefix(start): value
        for key, value in values.items()
        for start in WITHIN
        if key.startswith(start)
    }
    sizes = [str(values.get(key) or "") for key in PARTS]
    both = {"max_length": sum(map(int, sizes))} if all(map(is_whole, sizes)) else {}
    tuned = TUNINGS.get(str(values.get(TUNED)).lower(), {})
    rest = {key: value for key, value in values.items() if key != TUNED or not tuned}
    return {**inner, **both, **tuned, **rest}


def _with_base(found: Imported, said: str, loads: str) -> Imported:
    """Return what was found with frozen weights as they are loaded; DeepSpeed casts them to 16 bits."""
    if loads != "float32" or found.runtime == "deepspeed":
        return found
    note = f"{'dtype: float32' if said else 'no dtype'}: frozen weights are loaded in float32"
    return replace(found, changes=(*found.changes, "base_dtype=fp32"), notes=(*found.notes, note))


def _loaded(sheet: Sheet) -> str:
    """Return the dtype in which weights are loaded, where it is said."""
    found = sheet.take("dtype", "torch_dtype")
    name = "" if found is None else str(found).lower().removeprefix("torch.")
    if "method" in sheet.options:
        return name
    if name not in ("", "none", "auto", "float32", "bfloat16"):
        sheet.seen.discard("dtype")
    return name


def _with_images(sheet: Sheet) -> None:
    """Make a fault of an encoder of images beside the model: ``MODEL`` may name one that has it."""
    seeing = next((key for key in SEEING if sheet.take(key) not in (None, "")), None)
    if seeing is not None:
        expected = "text alone: an encoder of images is not read from here; MODEL that has one, or none"
        sheet.fault(seeing, repr(str(sheet.values[seeing])[:60]), expected)
        sheet.instead[seeing] = "model"


def _method(sheet: Sheet, dialect: Dialect) -> None:
    rank = next((key for key in RANKS if key in sheet.values), RANKS[0])
    switch = [key for key in SWITCHES if key in sheet.values]
    on = any(sheet.has(key) for key in switch)
    four = sheet.has("load_in_4bit", "use_4bit", "q_lora", "use_qlora", "use_4bit_quantization")
    eight = sheet.has("load_in_8bit", "use_8bit", "use_8bit_quantization")
    bits = sheet.whole("bits", "quant_bit")
    alone = bool(dialect.full) and not sheet.has(dialect.full)
    bits = 4 if alone and bits is None else bits
    sheet.seen.update(PARTS)
    sheet.seen.update((*SWITCHES, *RANKS, *TARGETS))
    if on or alone or four or bits in (4, 8) or (not switch and rank in sheet.values):
        targets = next((key for key in TARGETS if key in sheet.values), TARGETS[0])
        layers = ("all",) if alone else PEFT_DEFAULT
        usual: tuple[int, tuple[str, ...], float] = (dialect.rank, layers, dialect.dropout)
        if LORA_ENABLE in sheet.values:
            usual = LLAVA
            told = f"{LORA_ENABLE}: as LLaVA and its kin have it, rank {usual[0]} on all layers"
            sheet.notes.append(f"{told}, where the script says no other")
        say_adapter(
            sheet,
            4 if four or bits == 4 else 16,
            (rank, usual[0]),
            (targets, usual[1]),
            ("lora_dropout", usual[2]),
        )
        if (eight and not four) or bits == 8:
            key = "load_in_8bit" if eight else "bits"
            sheet.fault(key, "8 bits", "a base of 4 or 16 bits; or --method lora or qlora for one of them")
            sheet.instead[key] = "method"
        trainer.adapters_alone(sheet)


def _unpriced(sheet: Sheet) -> None:
    """Make faults of degrees and of what changes memory beside them."""
    why = "1: degrees are read from parallelism_config of an Accelerate YAML; or --{} N"
    degrees = {"tensor_parallel_size": "tp", "context_parallel_size": "cp", "sequence_parallel_size": "cp",
               "tp_size": "tp", "pp_size": "pp"}  # fmt: skip
    trainer.refuse(sheet, {key: why.format(option) for key, option in degrees.items()}, degrees)
    own = dict.fromkeys(("num_selects", "moe_enable"), "none: experts of its own are not read; or MODEL")
    trainer.refuse(sheet, own, dict.fromkeys(own, "model"))
    if sheet.has("use_lisa"):
        sheet.instead["use_lisa"] = "method"
        sheet.fault("use_lisa", "layers that take turns", "all weights or adapters; --method full or lora")
    sharded = {"sharded_ddp": "fsdp or deepspeed in its place, or --zero N"}
    trainer.refuse(sheet, sharded, {"sharded_ddp": "zero"})
    trainer.refuse(sheet, {"activation_offloading": "false: activations in host memory are not priced"})
    _frozen(sheet)


FROZEN: Final = re.compile(
    r"freeze_(?:backbone|llm|lm|language_model|model|base_model|llm_backbone)|tune_mm_mlp_adapter"
)
LEARNING: Final = re.compile(r"(?:tune|train|unfreeze)_(?:mm_)?(?:llm|lm|language_model|backbone)")
TUNABLE: Final = ("mm_tunable_parts", "mm_language_model")
"""What scripts of LLaVA and its kin call it that the language model rests, learns, or is among what does."""


def _frozen(sheet: Sheet) -> None:
    """Make a fault of a language model that learns nothing, neither weights nor adapters."""
    key, part = TUNABLE
    parts = sheet.values.get(key)
    rests = [name for name in sheet.values if FROZEN.fullmatch(name) and sheet.has(name)]
    rests += [name for name in sheet.values if LEARNING.fullmatch(name) and not sheet.has(name)]
    rests += [key] if parts not in (None, "") and part not in str(parts) else []
    if rests and "method" not in sheet.options:
        expected = "weights or adapters of the language model that learn; or --method NAME"
        sheet.fault(rests[0], repr(str(sheet.values[rests[0]])[:60]), expected)
        sheet.instead[rests[0]] = "method"
    sheet.seen.update(name for name in sheet.values if FROZEN.fullmatch(name) or LEARNING.fullmatch(name))
