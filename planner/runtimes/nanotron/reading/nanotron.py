"""A nanotron YAML as the options of a plan.

References
----------
.. [1] nanotron 2411b022, src/nanotron/config/: config.py (``Config``), parallelism_config.py,
   models_config.py, read by dacite with ``strict=True``: a key of its own invention stops the run.
.. [2] The same, src/nanotron/parallel/context.py, ``ParallelContext``: tp · cp · dp · pp is the world.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.inputs.build import build
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.runtimes.imports.field_kinds import absent, field_kinds, sections_of
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.nanotron.reading.nanotron_words import (
    check_words,
    grouped,
    is_foreign,
    modern,
    say_start,
    unscaled,
)
from planner.runtimes.nanotron.rules import unsaid
from planner.runtimes.nanotron.table import BARE, DEGREES, ENGINES, MODES

SECTIONS: Final = ("parallelism", "tokens", "optimizer", "model")
"""Sections that decide a price."""

OTHERS: Final = (
    "general", "checkpoints", "data_stages", "logging", "metrics_logging", "profiler", "lighteval",
    "s3_upload", "tokenizer", "doremi", "s3", "experiment_logger", "kill_switch_path",
)  # fmt: skip
"""Sections that do not decide a price, some of older releases."""

OTHER_RELEASE: Final = "moe_layer_recompute"
"""A switch of another release than the one read here, without effect where it is off."""

WHOLE: Final = {
    **{name: f"parallelism.{DEGREES[name]}" for name in ("dp", "pp", "tp")},
    "seq_len": "tokens.sequence_length", "micro_batch": "tokens.micro_batch_size",
    "accumulation": "tokens.batch_accumulation_per_replica",
}  # fmt: skip
"""Options that a file must say, and their keys."""

SHORT: Final = (*(f"{kind}-dtype-offered" for kind in ("gradient", "master", "state")), "vocabulary-divides")
"""Rules on files of the planner, which accumulate in float32 and divide the vocabulary: others step on the
bf16 weights and pad it (src/nanotron/helpers.py, ``init_optimizer_and_grad_accumulator`` and
``_vocab_size_with_padding``).
"""

RESUMED: Final = ("no-context-parallel",)
"""Rules on runs that begin: trainer.py initialises no weights under context parallelism, and loads those of a
checkpoint."""

SCHEDULES: Final = {word: name for name, word in ENGINES.items()}
SEQUENTIAL: Final = {word: on for on, word in MODES.items()}
DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
SHAPE: Final = "model.model_config."

WITHOUT_EFFECT: Final = re.compile(
    r"doremi\.domain_.*|(?:general|checkpoints|data_stages|logging|metrics_logging|profiler|lighteval|s3_upload|tokenizer)(?:\..*)?"
    r"|tokens\.(?:train_steps|val_check_interval|limit_.*)"
    r"|optimizer\.(?:weight_decay.*|clip_grad|learning_rate_scheduler(?:\..*)?|optimizer_factory\.(?!name).*)"
    r"|model\.(?:init_method(?:\..*)?|make_vocab_size_divisible_by|ddp_bucket_cap_mb)"
    r"|parallelism\.(?:tp_linear_async_communication|tp_recompute_allgather|moe_layer_recompute)"
    r"|model\.model_config\.(?:bos_token_id|eos_token_id|pad_token_id|initializer_range|is_\w+_config|use_cache"
    r"|pretraining_tp|rope_interleaved|_use_.*|_fused_.*|z_loss_.*"
    r"|log_attn_probs|_attn_implementation|ring_attn_heads_k_stride"
    r"|moe_config\.(?:router_aux_loss_coef|token_dispatcher_type))"
)
"""Keys that decide neither layout nor shape."""

DEFAULTS: Final = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "vocab_size": 32000}  # fmt: skip
"""``LlamaConfig`` and ``Qwen2Config`` where a file says nothing."""


def fits(source: Source) -> bool:
    """Return whether a YAML has the sections that nanotron asks for."""
    return isinstance(source.tree.get("parallelism"), Mapping) and "model" in source.tree


def read(source: Source) -> Imported:
    """Return what a YAML says."""
    tree, notes = modern(source.tree)
    sheet = Sheet(source.where, {key: grouped(value) for key, value in flat(tree).items()})
    sheet.notes += notes
    _sections(sheet, tree)
    for option, key in WHOLE.items():
        sheet.say(option, _counted(sheet, key), key)
    _kinds(sheet)
    _layout(sheet)
    _numbers(sheet)
    record = _record(sheet)
    record = record if _sums(sheet, record) else None
    _world(sheet, source)
    unscaled(sheet)
    sheet.seen.update(key for key in sheet.values if WITHOUT_EFFECT.fullmatch(key) and not is_foreign(key))
    lifted = (*SHORT, *(RESUMED if sheet.values.get("checkpoints.resume_checkpoint_path") else ()))
    found = replace(sheet.imported("nanotron"), lifted=lifted)
    found = with_record(found, record, source.path, "model_config")
    return _own_numerics(found, record, source.where)


def _own_numerics(found: Imported, record: dict[str, Any] | None, where: str) -> Imported:
    """Return what was found with the file's own model, where the zoo's has numerics that nanotron lacks."""
    known = load_model(found.model_name) if found.model_name else found.model
    if record is None or known is None or not unsaid(known):
        return found
    model = build(ModelSpec, {**record, "name": f"{known.name} as nanotron has it"}, where)
    return replace(found, model=model, model_name=None)


LISTS: Final = ("data_stages",)
"""Sections that are lists."""


def _sections(sheet: Sheet, tree: Mapping[str, Any]) -> None:
    """Check that a section is one, and has no key of its own invention."""
    for name in tree:
        if name not in (*SECTIONS, *OTHERS):
            sheet.fault(str(name), "no section of nanotron", ", ".join((*SECTIONS, *OTHERS)))
        elif name not in LISTS and not isinstance(tree[name], Mapping | None):
            sheet.fault(str(name), repr(tree[name]), "a section")
    for name in SECTIONS:
        keys = field_kinds("nanotron_fields.txt")[name]
        section = tree.get(name)
        if not isinstance(section, Mapping):
            sheet.fault(name, repr(section), "a section")
            continue
        for key in map(str, section):
            if key not in keys and not (key == OTHER_RELEASE and section[key] is False):
                sheet.fault(f"{name}.{key}", "no key of nanotron", f"one of {', '.join(keys)}")
            elif key == OTHER_RELEASE:
                sheet.seen.add(f"{name}.{key}")


ATTENTIONS: Final = (
    "flash_attention_2", "flex_attention", "sdpa", "ring_flash_triton", "ring", "llama3_ring_attention",
)  # fmt: skip
"""nanotron, nn/attention.py, ``ALL_ATTENTION_FUNCTIONS``."""


def _kinds(sheet: Sheet) -> None:
    """Check keys without effect on a price that dacite would still refuse."""
    if sheet.values.get("optimizer.optimizer_factory.name", "adamW") == "adamW":
        for name in ("adam_eps", "adam_beta1", "adam_beta2", "torch_adam_is_fused"):
            if sheet.values.get(f"optimizer.optimizer_factory.{name}") is None:
                sheet.fault(f"optimizer.optimizer_factory.{name}", "nothing", "it, for adamW")
    _needed(sheet)
    check_words(sheet)
    kernel = sheet.values.get(f"{SHAPE}_attn_implementation")
    if kernel is not None and kernel not in ATTENTIONS:
        sheet.fault(f"{SHAPE}_attn_implementation", repr(kernel), ", ".join(ATTENTIONS))


WARMUP: Final = "optimizer.learning_rate_scheduler.lr_warmup_style"
"""A word that nanotron checks though it has a default, which is none of its words."""


def _needed(sheet: Sheet) -> None:
    """Check that fields without a default are there, of the sections that are."""
    there = {key for key, value in sheet.values.items() if value is not None}
    sections = {"general", *sections_of(sheet.values)}
    missing = [*absent("nanotron_fields.txt", there, sections)]
    missing += [WARMUP] if "optimizer" in sections and WARMUP not in there else []
    for key in missing:
        sheet.fault(key, "nothing", "it: nanotron has no default")


def _counted(sheet: Sheet, key: str) -> int | None:
    """Return a number that must be there, 1 or more."""
    value = sheet.values.get(key)
    if type(value) is not int or value < 1:
        sheet.seen.add(key)
        sheet.fault(key, "nothing" if value is None else repr(value), "a whole number, 1 or more")
        return None
    return sheet.whole(key)


def _chosen(sheet: Sheet, key: str, known: Mapping[str, Any], usual: str, upper: bool = False) -> Any:
    """Return the meaning of a word that nanotron knows."""
    value = sheet.take(key)
    word = str(usual if value is None else value)
    word = word.upper() if upper else word
    if word not in known:
        sheet.fault(key, repr(value), " or ".join(known))
    return known.get(word)


def _layout(sheet: Sheet) -> None:
    for option in ("cp", "ep"):
        key = f"parallelism.{DEGREES[option]}"
        sheet.say(option, _counted(sheet, key) if key in sheet.values else 1, key)
    engine = _chosen(sheet, "parallelism.pp_engine", SCHEDULES, "afab")
    if sheet.options.get("pp", "1") != "1":
        sheet.say("schedule", engine, "parallelism.pp_engine")
    if (
        _chosen(sheet, "parallelism.tp_mode", SEQUENTIAL, "ALL_REDUCE", upper=True)
        and sheet.options.get("tp") != "1"
    ):
        sheet.say("sequence_parallel", "true", "parallelism.tp_mode")
    again = sheet.take("parallelism.recompute_layer")
    if again is not None and not isinstance(again, bool):
        sheet.fault("parallelism.recompute_layer", repr(again), "true or false")
    sheet.say("recompute", "full" if again else "none", "parallelism.recompute_layer")


def _numbers(sheet: Sheet) -> None:
    """Say sharding, precision and optimizer; any stage above 0 shards the optimizer's states alone."""
    key = "optimizer.zero_stage"
    stage = sheet.values.get(key)
    sheet.seen.add(key)
    if type(stage) is not int or stage < 0:
        sheet.fault(key, repr(stage), "0 or 1")
    else:
        sheet.say("zero", min(stage, 1), key)
        if stage > 1:
            sheet.notes.append(f"zero_stage {stage}: nanotron shards optimizer states alone, as for 1")
    sheet.say("precision", _chosen(sheet, "model.dtype", DTYPES, "bfloat16"), "model.dtype")
    full = sheet.take("optimizer.accumulate_grad_in_fp32")
    if not isinstance(full, bool):
        sheet.fault("optimizer.accumulate_grad_in_fp32", repr(full), "true or false")
    elif not full:
        for kind in ("gradient", "master", "state") if sheet.values.get("model.dtype") == "bfloat16" else ():
            sheet.say(f"{kind}_dtype", "bf16", "optimizer.accumulate_grad_in_fp32")
    kinds = {"adamW": "adamw", "sgd": "sgd"}
    sheet.say(
        "optimizer",
        _chosen(sheet, "optimizer.optimizer_factory.name", kinds, "adamW"),
        "optimizer.optimizer_factory.name",
    )


def _size(sheet: Sheet, name: str, default: int | None = None) -> int:
    """Return a number of the model; what is not said is nanotron's own."""
    key = f"{SHAPE}{name}"
    if sheet.values.get(key) is None and default is not None:
        sheet.seen.add(key)
        return default
    return _counted(sheet, key) or 1


def _real(sheet: Sheet, name: str, default: float) -> float:
    """Return a number of the model that may have a fraction; what is not said is nanotron's own."""
    value = sheet.take(f"{SHAPE}{name}")
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        sheet.fault(f"{SHAPE}{name}", repr(value), "a number above 0")
        return default
    return float(value)


def _record(sheet: Sheet) -> dict[str, Any] | None:
    """Return the record of a Llama or Qwen2 model; None for another or a wrong one."""
    if not (sheet.has(f"{SHAPE}is_llama_config") or sheet.has(f"{SHAPE}is_qwen2_config")):
        sheet.notes.append("a model that is no Llama and no Qwen2, so not read; name it as MODEL")
        return None
    before = len(sheet.problems)
    sizes = {name: _size(sheet, name, default) for name, default in DEFAULTS.items()}
    heads = sizes["num_attention_heads"]
    mixer = {
        "kind": "attention",
        "heads": heads,
        "kv_heads": _size(sheet, "num_key_value_heads", heads),
        "head_dim": max(1, sizes["hidden_size"] // heads),
        "qkv_bias": sheet.has(f"{SHAPE}attention_bias"),
        "window": sheet.whole(f"{SHAPE}sliding_window_size"),
    }
    act = sheet.take(f"{SHAPE}hidden_act")
    if act not in (None, "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"):
        sheet.fault(f"{SHAPE}hidden_act", repr(act), "silu, gelu or relu")
    elif act not in (None, "silu"):
        sheet.notes.append(f"activation {act}: priced as silu")
    layers = sizes["num_hidden_layers"]
    dense, moe, sparse = _ffns(sheet, sizes["intermediate_size"], layers)
    ffns = {"dense": dense} | ({"sparse": moe} if moe else {})
    bare = _bare(sheet, layers)
    blocks = {name: {"mixer": mixer, "ffn": ffn} for name, ffn in ffns.items()}
    blocks |= {f"bare-{name}": {"mixer": mixer | {"rotary": False}, "ffn": ffn} for name, ffn in ffns.items()}
    kinds = ["sparse" if moe and layer in sparse else "dense" for layer in range(min(layers, 10_000))]
    order = [f"bare-{kind}" if bare and n % bare == 0 else kind for n, kind in enumerate(kinds, 1)]
    std = sheet.values.get("model.init_method.std")
    stretch = _real(sheet, "rope_seq_len_interpolation_factor", 1.0)
    numerics = {
        "rope_theta": _real(sheet, "rope_theta", 10_000.0),
        "norm_epsilon": _real(sheet, "rms_norm_eps", 1e-6),
        "rope_scaling": {"kind": "linear", "factor": stretch} if stretch != 1 else None,
        "init_std": std if isinstance(std, int | float) and std > 0 else None,
    }
    if len(sheet.problems) > before:
        return None
    return {
        "hidden": sizes["hidden_size"],
        "vocab": sizes["vocab_size"],
        "tied_embeddings": sheet.has(f"{SHAPE}tie_word_embeddings"),
        "max_positions": _size(sheet, "max_position_embeddings", 2048),
        "blocks": {name: block for name, block in blocks.items() if name in order},
        "layers": order,
        "numerics": numerics,
    }


def _bare(sheet: Sheet, layers: int) -> int | None:
    """Return N where each Nth layer has no rotary positions; it divides their number."""
    key = f"{SHAPE}{BARE}"
    period = sheet.whole(key)
    if period is not None and (period < 1 or layers % period):
        sheet.fault(key, str(period), f"a divisor of the {layers} layers")
    return period


def _ffns(sheet: Sheet, width: int, layers: int) -> tuple[dict[str, Any], dict[str, Any] | None, set[int]]:
    """Return the dense and the sparse feed-forward, and the layers that have the sparse one."""
    dense = {"kind": "dense", "inner": width}
    place = f"{SHAPE}moe_config."
    if not any(key.startswith(place) for key in sheet.values):
        return dense, None, set()
    sizes = {
        "num_experts": 8,
        "top_k": 2,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
    }
    experts, topk, inner, shared = (
        _size(sheet, f"moe_config.{name}", usual) for name, usual in sizes.items()
    )
    gate = sheet.has(f"{place}enable_shared_expert")
    listed = sheet.take(f"{place}layers")
    if topk > experts:
        sheet.fault(f"{place}top_k", str(topk), f"at most num_experts ({experts})")
    if sheet.values.get(f"{place}token_dispatcher_type", "alltoall") not in ("alltoall", "allgather"):
        sheet.fault(
            f"{place}token_dispatcher_type",
            repr(sheet.values[f"{place}token_dispatcher_type"]),
            "alltoall or allgather",
        )
    every = listed is None or listed == [-1]
    if not every and not isinstance(listed, list):
        sheet.fault(f"{place}layers", repr(listed), "a list of layers")
    marked = (
        set(range(layers))
        if every
        else {layer for layer in listed if type(layer) is int}
        if isinstance(listed, list)
        else set()
    )
    return dense, {
        "kind": "moe", "experts": experts, "topk": topk, "inner": inner,
        "shared_inner": shared if gate else 0, "shared_gate": gate,
    }, marked  # fmt: skip


def _sums(sheet: Sheet, record: Mapping[str, Any] | None) -> bool:
    """Check what ``Config.__post_init__`` asserts of heads, and return whether they make a model."""
    tp = int(sheet.options.get("tp", "1"))
    if record is None:
        return False
    mixer = next(iter(record["blocks"].values()))["mixer"]
    heads, groups = mixer["heads"], mixer["kv_heads"]
    if heads % tp:
        sheet.fault(f"{SHAPE}num_attention_heads", str(heads), f"a multiple of tp ({tp})")
    if groups < tp:
        sheet.fault(f"{SHAPE}num_key_value_heads", str(groups), f"tp ({tp}) or more")
    if heads % groups:
        sheet.fault(f"{SHAPE}num_key_value_heads", str(groups), f"a divisor of the {heads} heads")
    sheet.instead.update(
        {f"{SHAPE}{name}": "model" for name in ("num_attention_heads", "num_key_value_heads")}
    )
    return bool(heads % groups == 0)


def _world(sheet: Sheet, source: Source) -> None:
    """Say the accelerators, which the degrees are the product of, and check those that a script starts."""
    degrees = {name: int(sheet.options.get(name, "1")) for name in ("tp", "cp", "dp", "pp")}
    world, starter = prod(degrees.values()), source.starter
    if starter is not None and starter.gpus not in (None, world) and not sheet.problems:
        shown = " x ".join(f"{name} {size}" for name, size in degrees.items())
        sheet.problems["parallelism"] = Problem(
            f"{source.path}: parallelism", f"{shown} = {world}", f"the {starter.gpus} ranks that are started"
        )
    sheet.say("gpus", world, "parallelism.dp")
    if starter is not None:
        say_start(sheet, starter)


ENTRY: Final = FileFormat("a nanotron .yaml", (".yaml", ".yml"), fits, read)
