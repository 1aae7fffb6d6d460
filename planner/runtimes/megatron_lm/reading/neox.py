"""A GPT-NeoX YAML (``deepy.py train.py FILES``) as Megatron-LM's flags.

References
----------
.. [1] GPT-NeoX (https://github.com/EleutherAI/gpt-neox), megatron/neox_arguments/neox_args.py (keys and
   defaults) and megatron/model/transformer.py: ``ParallelMLP`` (widths), ``ParallelTransformerLayer``
   (residuals).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.yaml_file import parse_yaml, read_text
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.passed_over import off, on, passed_over, tell
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.runtimes.megatron_lm.reading.megatron_zero import BF16

SAME: Final = {
    "num_layers": "num-layers", "hidden_size": "hidden-size", "num_attention_heads": "num-attention-heads",
    "seq_length": "seq-length", "max_position_embeddings": "max-position-embeddings",
    "model_parallel_size": "tensor-model-parallel-size", "pipe_parallel_size": "pipeline-model-parallel-size",
    "context_parallel_size": "context-parallel-size", "train_micro_batch_size_per_gpu": "micro-batch-size",
    "train_batch_size": "global-batch-size", "rotary_pct": "rotary-percent", "rotary_emb_base": "rotary-base",
    "make_vocab_size_divisible_by": "make-vocab-size-divisible-by", "padded_vocab_size": "vocab-size",
    "layernorm_epsilon": "norm-epsilon", "rms_norm_epsilon": "norm-epsilon",
    "hidden_dropout": "hidden-dropout", "attention_dropout": "attention-dropout",
    "tokenizer_type": "tokenizer-type",
}  # fmt: skip
SWITCHES: Final = {
    "no_weight_tying": "untie-embeddings-and-output-weights", "sequence_parallel": "sequence-parallel",
    "use_qk_layernorm": "qk-layernorm", "partition_activations": "distribute-saved-activations",
}  # fmt: skip
DEFAULTS: Final = {
    "hidden_dropout": 0, "attention_dropout": 0, "pos_emb": "learned", "norm": "layernorm",
    "activation": "gelu", "tokenizer_type": "GPT2BPETokenizer",
}  # fmt: skip
"""What is otherwise where a file is silent, or where Megatron-LM has another value [1]_."""

POSITIONS: Final = {"rotary": "rope", "learned": "learned_absolute", "none": "none", "alibi": "alibi"}
GATED: Final = ("swiglu",)
ACTIVATIONS: Final = ("gelu", "swiglu")
OLD: Final = "llama"
OPTIMIZERS: Final = {"adam": "adam", "adamw": "adam", "sgd": "sgd", "lion": "lion", "muon": "muon"}
ATTENTION: Final = ("flash", "global")
MULTIPLE: Final = 256
"""Of which the width of a feed-forward is one [1]_."""

UNPRICED: Final = {
    "moe_num_experts": "model", "mlp_type": "model", "attention_config": "model", "activation": "model",
    "pos_emb": "model", "optimizer.type": "optimizer",
}  # fmt: skip
"""Keys that may ask for what has no price here, each with the option that says it in its place."""

WITHOUT_EFFECT: Final = re.compile(
    r"(?:optimizer\.params|fp16|bf16|zero_optimization|scheduler|comms_logger|flops_profiler|autotuning)\..*"
    r"|(?:train|valid|test|label)_data_.*|data_.*|.*_(?:file|dir|path|paths|weights)|save.*|load.*|split|lr.*"
    r"|min_lr|decay_lr_to|warmup.*|train_iters|eval_.*|checkpoint_(?:factor|scale|validation.*|num_layers)"
    r"|extra_save_iters|keep_last.*|log_.*|steps_per_print|wall_clock_breakdown|tensorboard.*|.*wandb.*|.*comet.*"
    r"|init_method.*|output_layer_.*|.*_fusion|synchronize_each_layer|contiguous_checkpointing|gradient_clipping"
    r"|weight_decay|distributed_backend|num_workers|hostfile|launcher|deepspeed_.*|finetune|text_gen.*|top_[kp]"
    r"|maximum_tokens|temperature|prompt_end|sample_.*|num_samples|recompute|eos.*|seed|profile.*|memory_profiling.*"
    r"|mlp_multiple_of|no_load_.*|override_.*|use_flashattn_swiglu|fp32_allreduce|mup_.*|coord_check|git_hash"
    r"|pack_impl|reset_.*|eod_.*|use_shared_fs|iteration|dataset_impl|tokenizer.*|vocab_.*|global_num_gpus"
    r"|pipe_partition_method|gas|verbose|debug|comment|hysteresis|attention_softmax_in_fp32|scaled_.*|gpt_j_tied|te_.*"
)
"""Keys that decide neither layout nor what is kept in memory, or that are read with others."""

TOLD: Final = (
    passed_over("fp32_allreduce", on, "gradients are priced as sent in the numbers they are kept in"),
    passed_over(r"zero_optimization\.(?:reduce_scatter|overlap_comm)", off, "priced as on"),
    passed_over(
        "te_(?:columnparallel|rowparallel|layernorm_mlp|mha|fp8_mha)", on, "priced as PyTorch's layers"
    ),
)
"""What is not priced; nothing in it decides the layout."""

OF_FLAGS: Final = ("model-expressible", "numerics-have-flags", "optimizer-offered")
"""Rules that say what Megatron-LM's flags can build."""

NOTE: Final = "GPT-NeoX: DeepSpeed's pipeline and ZeRO, priced as Megatron-LM"


def values_of(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file as its arguments have them: dashes are underscores."""
    return {key.replace("-", "_"): value for key, value in flat(tree).items()}


def is_one(source: Source) -> bool:
    """Return whether a file has GPT-NeoX's degrees beside a model's sizes."""
    keys = {str(key).replace("-", "_") for key in source.tree}
    return {"pipe_parallel_size", "model_parallel_size"} <= keys and "num_layers" in keys


def read(source: Source) -> Imported:
    """Return what a file says, with the model that it describes."""
    sheet = Sheet(source.where, DEFAULTS | values_of(source.tree))
    flags = _flags(sheet)
    gpus = sheet.whole("global_num_gpus")
    gpus = (source.starter.gpus or gpus) if source.starter else gpus
    found, record = from_script(
        Training("megatron-lm", flags, 1 if gpus else None, gpus, None, ()), source.where
    )
    if record is not None:
        record = _shaped(sheet, record) | ({} if source.vocab is None else {"vocab": source.vocab})
    _layout(sheet, "--bf16" in flags)
    tell(sheet, TOLD)
    sheet.ignore(WITHOUT_EFFECT)
    options = {**found.options, **sheet.options}
    if "accumulation" in options:
        options.pop("global_batch", None)
    own = {f"--{flag}": key for key, flag in SAME.items()}
    mine = tuple((option, _renamed(problem, own)) for option, problem in found.faults)
    extra = sheet.imported("").faults
    notes = (NOTE, *(note for note in found.notes if "--vocab-size" not in note), *sheet.notes)
    whole = replace(
        found,
        options=options,
        places={option: own.get(place, place) for option, place in {**found.places, **sheet.places}.items()},
        changes=(*found.changes, *sheet.changes),
        unknown=tuple(key for key in sheet.unknown() if sheet.values[key] not in (None, False)),
        notes=notes,
        faults=(*mine, *extra),
        lifted=OF_FLAGS,
    )
    return with_record(whole, record, source.path, "--vocab-size")


def _renamed(problem: Problem, own: Mapping[str, str]) -> Problem:
    """Return a fault at the key of the file that the flag stands for."""
    where, _, flag = problem.where.rpartition(": ")
    return replace(problem, where=f"{where}: {own[flag]}") if flag in own else problem


def _flags(sheet: Sheet) -> dict[str, str]:
    """Return Megatron-LM's flags; what has no price is a fault."""
    flags = {f"--{flag}": str(sheet.take(key)) for key, flag in SAME.items() if sheet.take(key) is not None}
    flags |= {f"--{flag}": "" for key, flag in SWITCHES.items() if sheet.has(key)}
    if flags.get("--pipeline-model-parallel-size") == "0":
        flags["--pipeline-model-parallel-size"] = "1"
    groups = sheet.whole("num_kv_heads")
    if groups:
        flags |= {"--group-query-attention": "", "--num-query-groups": str(groups)}
    if "rms" in str(sheet.take("norm")):
        flags["--normalization"] = "RMSNorm"
    flags["--position-embedding-type"] = POSITIONS.get(str(sheet.take("pos_emb")), "")
    _widths(sheet, flags)
    _numbers(sheet, flags)
    if sheet.whole("model_parallel_size") == 1:
        flags.pop("--distribute-saved-activations", None)
    if sheet.has("checkpoint_activations"):
        count = str(sheet.take("checkpoint_num_layers") or 1)
        flags |= {"--recompute-granularity": "full", "--recompute-method": "uniform"}
        flags["--recompute-num-layers"] = count
    else:
        flags.pop("--distribute-saved-activations", None)
    flags["--optimizer"] = OPTIMIZERS.get(str(sheet.take("optimizer.type") or "adam").lower(), "adam")
    _refused(sheet)
    return flags


def _widths(sheet: Sheet, flags: dict[str, str]) -> None:
    """Say the feed-forward's width: of a gated one a third, up to the next multiple of 256 [1]_.

    Until September 2024 ``mlp_type`` llama had two thirds of four times the width, without biases.
    """
    hidden = sheet.whole("hidden_size") or 0
    said = sheet.whole("intermediate_size")
    width = said or 4 * hidden
    if sheet.take("mlp_type") == OLD:
        width, flags["--swiglu"] = said or 2 * hidden * 4 // 3, ""
    elif str(sheet.take("activation")) in GATED:
        width, flags["--swiglu"] = width * 2 // 3 // 2, ""
        sheet.notes.append(f"swiglu: a feed-forward of {width}, a third of {said or 4 * hidden}, rounded up")
    flags["--ffn-hidden-size"] = str(-(-width // MULTIPLE) * MULTIPLE)


def _numbers(sheet: Sheet, flags: dict[str, str]) -> None:
    """Say the precision, from ``precision`` or the section that is enabled."""
    word = str(sheet.take("precision") or "")
    half, brain = (str(sheet.values.get(f"{name}.enabled")).lower() == "true" for name in ("fp16", "bf16"))
    if word == "bfloat16" or brain or sheet.values.get("fp16.type") == "bfloat16":
        flags["--bf16"] = ""
    elif word == "fp16" or half:
        flags["--fp16"] = ""
    if str(sheet.take("grad_accum_dtype")) == "fp32":
        flags["--accumulate-allreduce-grads-in-fp32"] = ""


def _refused(sheet: Sheet) -> None:
    """Note a fault for each key that asks for what has no price."""
    kinds = re.findall(r"[a-z_]+", str(sheet.take("attention_config") or "").replace("all", ""))
    optimizer = str(sheet.values.get("optimizer.type") or "adam").lower()
    experts = sheet.whole("moe_num_experts")
    wrong = {
        "attention_config": (", ".join({*kinds} - {*ATTENTION}), "flash or global in every layer; or MODEL"),
        "activation": (
            _other(sheet, "activation", ACTIVATIONS),
            f"one of {', '.join(ACTIVATIONS)}; or MODEL",
        ),
        "pos_emb": (_other(sheet, "pos_emb", POSITIONS), f"one of {', '.join(POSITIONS)}; or MODEL"),
        "optimizer.type": ("" if optimizer in OPTIMIZERS else optimizer, f"one of {', '.join(OPTIMIZERS)}"),
        "moe_num_experts": (str(experts) if (experts or 1) > 1 else "", "1: experts are not read; or MODEL"),
        "mlp_type": (_other(sheet, "mlp_type", ("regular", OLD)), f"regular or {OLD}; or MODEL"),
        "train_impl": (
            _other(sheet, "train_impl", ("normal",)),
            "normal: next-token training alone is priced",
        ),
    }
    for key, (found, expected) in wrong.items():
        if found:
            sheet.fault(key, found[:60], expected)
            sheet.instead |= {key: UNPRICED[key]} if key in UNPRICED else {}
    if "flash" not in kinds:
        sheet.changes.append("attention=unfused")
    if sheet.has("use_bnb_optimizer"):
        sheet.say("optimizer", "adam8bit-bnb", "use_bnb_optimizer")


def _other(sheet: Sheet, key: str, known: Any) -> str:
    value = sheet.take(key)
    return "" if value is None or str(value) in known else str(value)


def _shaped(sheet: Sheet, record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with what Megatron-LM's flags do not say: residuals in parallel, biases by part."""
    attention, inner, norms = (
        str(sheet.take(f"use_bias_in_{part}")).lower() != "false" for part in ("attn_linear", "mlp", "norms")
    )
    blocks = {
        name: {
            **block,
            "mixer": {**block["mixer"], "qkv_bias": attention, "output_bias": attention},
        }
        for name, block in record["blocks"].items()
    }
    inner = inner and sheet.values.get("mlp_type") != OLD
    blocks = {name: {**block, "ffn": {**block["ffn"], "bias": inner}} for name, block in blocks.items()}
    beside = ["parallel-blocks"] if sheet.has("gpt_j_residual") else []
    norm_bias = norms and record["norm"] == "layernorm"
    return {**record, "blocks": blocks, "norm_bias": norm_bias, "variants": beside}


def _layout(sheet: Sheet, brain: bool) -> None:
    """Say ZeRO's stage and where its states are, and the passes of a step; ``brain``: in bfloat16."""
    place = "zero_optimization."
    stage = sheet.whole(f"{place}stage", "zero_stage") or 0
    if stage == 0 and brain and sheet.values.get("pipe_parallel_size") != 0:
        stage = 1
        sheet.notes.append(BF16)
    sheet.say("zero", stage, f"{place}stage")
    hosted = sheet.has(f"{place}cpu_offload") or sheet.values.get(f"{place}offload_optimizer.device") == "cpu"
    if hosted:
        sheet.say("offload", "optimizer", f"{place}cpu_offload")
    steps = sheet.whole("gradient_accumulation_steps")
    if sheet.values.get("train_batch_size") is None:
        sheet.say("accumulation", steps or 1, "gradient_accumulation_steps")
        if steps is None:
            sheet.notes.append("no gradient_accumulation_steps: one micro-batch on every replica")


def read_command(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what ``deepy.py train.py [-d FOLDER] FILES`` says: the keys of all its files together [1]_.

    Raises `InputError` if a file is not there.
    """
    words = training.words[2:]
    folder = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in FOLDERS), "")
    names = [word for word in words if not word.startswith("-") and word != folder]
    tree: dict[str, Any] = {}
    for name in names:
        whole = Path(folder) / (name if name.endswith((".yml", ".yaml")) else f"{name}.yml")
        file = find_beside(whole, path)
        if file is None:
            expected = f"a file found from the folders above {path.name}"
            raise InputError(Problem(f"{path}: {name}", "no such file", expected))
        tree |= parse_yaml(read_text(file), str(file))
    return read(Source(path, "", tree, training, vocab))


FOLDERS: Final = ("-d", "--conf_dir")
"""Options of ``deepy.py`` before the folder of its files."""

ENTRY: Final = FileFormat("a GPT-NeoX .yml", (".yaml", ".yml"), is_one, read)
