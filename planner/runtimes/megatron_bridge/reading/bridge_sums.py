"""What Megatron-Bridge checks of its fields beside what Megatron-LM checks.

Read in Megatron-Bridge 067f987d, training/config.py, ``validate`` of ``ConfigContainer`` and ``finalize`` of
its sections, training/comm_overlap.py and training/mixed_precision.py; Megatron-LM d98e8a64,
megatron/core/model_parallel_config.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.field_kinds import absent, field_kinds, misfit
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.bridge_adapters import adapter_fault, is_latent
from planner.units import is_whole

GRAPHS: Final = ("none", "local", "transformer_engine", "full_iteration")
COUNTS: Final = ("vocab_size", "kv_channels", "num_moe_experts", "moe_shared_expert_intermediate_size")
RECIPES: Final = (
    *("bf16_mixed", "fp16_mixed", "bf16_with_nvfp4_mixed", "nemotron_3_super_bf16_with_nvfp4_mixed"),
    *("nemotron_h_bf16_with_fp8_current_scaling_mixed", "nanov2_bf16_with_fp8_current_scaling_mixed"),
    *(
        f"{base}_with_{kind}_mixed"
        for base in ("bf16", "fp16")
        for kind in ("fp8_delayed_scaling", "mxfp8", "fp8_current_scaling", "fp8_subchannel_scaling")
    ),
)
"""Names of mixed precision (``MIXED_PRECISION_RECIPES``)."""

ASKED: Final = ("reset_position_ids", "reset_attention_mask", "eod_mask_loss")
"""What the dataset for pre-training must be told."""

STATES: Final = ("exp_avg_dtype", "exp_avg_sq_dtype", "main_params_dtype")

Fault = tuple[str, str, str]


def bridge_sums(said: Mapping[str, Any], root: str, found: Imported, where: str) -> Imported:
    """Return what was found with a fault for each field that Megatron-Bridge would refuse.

    ``said`` has the fields of a ``ConfigContainer`` below ``root``.
    """
    fields = {key.removeprefix(root): value for key, value in said.items() if key.startswith(root)}
    faults = [
        *_needed(fields),
        *_kinds(fields),
        *_values(fields),
        *_together(fields, found.options),
        *_run(fields),
        *_saving(fields),
    ]
    known = {problem.where for _, problem in found.faults}
    new = [("", Problem(f"{where}: {key}", text, expected)) for key, text, expected in faults]
    faulty = (*found.faults, *(pair for pair in new if pair[1].where not in known))
    return replace(found, faults=faulty, unknown=(*found.unknown, *_foreign(fields)))


OWN: Final = {
    "dataset": ("GPTDatasetConfig", "MockGPTDatasetConfig"),
    "model": ("GPTModelProvider", "MLAModelProvider"),
    "peft": ("LoRA",),
}
"""Classes of sections whose fields are known; one of another class may have others."""


LAYERS: Final = "model.transformer_layer_spec"
LAYER_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "get_gpt_decoder_block_spec": (
        *("config", "use_transformer_engine", "normalization", "qk_l2_norm", "vp_stage", "pp_rank"),
    ),
    "get_transformer_block_with_experimental_attention_variant_spec": ("config", "vp_stage", "pp_rank"),
}
"""Functions of Megatron-core that describe layers, and what they take by name (d98e8a64)."""


def _layers(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what a function of layers is given and does not take."""
    name = str(fields.get(LAYERS)).rpartition(".")[2]
    words = LAYER_WORDS.get(name, ())
    for key in fields:
        word = key.removeprefix(f"{LAYERS}.")
        if words and word not in (key, "", *words):
            yield LAYERS, f"{word} for {name}", f"one of {', '.join(words)}"


def _foreign(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield fields that a section does not have."""
    for key in fields:
        section, dot, name = key.partition(".")
        other = section in OWN and fields.get(section) not in OWN[section]
        known = field_kinds("bridge_fields.txt").get(section, {name: ""})
        if dot and name and "." not in name and not other and name not in known:
            yield key


WHOLE: Final = {"comm_overlap": "CommOverlapConfig"}
"""Classes of sections that have fields without a default."""


def _needed(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield fields without a default that a section which is made here does not say."""
    made = [section for section, kind in WHOLE.items() if fields.get(section) == kind]
    for key in absent("bridge_fields.txt", fields, made):
        yield key, "nothing", "it: Megatron-Bridge has no default"


PLAIN: Final = (bool, int, float, str, list, dict, type(None))


TRUTHS: Final = ("train.manual_gc_eval",)
"""Switches that recipes of Megatron-Bridge set to a number, which switches them on."""


def _kinds(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield values of another kind than their field's; what the program works out is left to it."""
    for key, value in fields.items():
        section, _, name = key.partition(".")
        kind = field_kinds("bridge_fields.txt").get(section, {}).get(name, "")
        if kind and key not in TRUTHS and type(value) in PLAIN and (wrong := _wrong(kind, value)):
            yield key.removeprefix("model."), repr(value)[:60], wrong
    path = fields.get("dataset.data_path")
    if type(path) in (bool, int, float, dict):
        yield "dataset.data_path", repr(path)[:60], "text or a list"
    lengths = [_said(fields, "train", name) for name in ("train_iters", "train_samples", "num_epochs")]
    if not any(lengths) and fields.get("train") == "TrainingConfig":
        yield "train.train_iters", "nothing", "the steps of the run"
    if "model.activation_func" in fields and fields["model.activation_func"] is None:
        yield "activation_func", "None", "a function"


def _wrong(kind: str, value: Any) -> str:
    """Return what a field takes instead of a value: a dataclass checks none, so None is as good as false."""
    whole = type(value) is float and kind[0] == "i" and value.is_integer()
    return "" if whole or (value is None and kind[0] == "b") else misfit(kind, value)


def _values(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield fields whose value alone is wrong."""
    for name in COUNTS:
        if fields.get(f"model.{name}") in (0, "0"):
            yield name, "0", "1 or more, or None"
    for name in ("hidden_dropout", "attention_dropout"):
        share = fields.get(f"model.{name}")
        if isinstance(share, int | float) and not 0 <= share <= 1:
            yield name, str(share), "a share from 0 to 1"
    yield from _empty(fields)
    yield from _precision(fields)
    yield from _passed_over(fields)
    for name in ("model.make_vocab_size_divisible_by", "scheduler.lr_decay_iters"):
        if type(number := fields.get(name)) is int and number < 1:
            yield name.removeprefix("model."), str(number), "1 or more"
    graphs = fields.get("model.cuda_graph_impl")
    if graphs is not None and graphs not in GRAPHS:
        yield "cuda_graph_impl", repr(graphs), f"one of {', '.join(GRAPHS)}"
    yield from _activation(fields)
    yield from _layers(fields)


def _activation(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what an activation that is fused with its bias, stored in fp8 or Transformer Engine's cannot be.

    Megatron-core, transformer/transformer_config.py, ``TransformerConfig.__post_init__``.
    """
    own = {name: fields.get(f"model.{name}") for name in ACTIVATION}
    function = str(own["activation_func"] or "gelu").rpartition(".")[2]
    gated, offset = own["gated_linear_unit"] is True, own["glu_linear_offset"]
    if own["activation_func_fp8_input_store"] is True and not (gated and function == "silu"):
        yield "activation_func_fp8_input_store", f"with {function[:60]}", "a gated silu"
    if own["bias_activation_fusion"] is not True:
        return
    place = "under bias_activation_fusion"
    if function not in FUSED:
        yield "activation_func", str(own["activation_func"])[:60], f"one of {', '.join(FUSED)} {place}"
    if function == "gelu" and not gated and own["add_bias_linear"] is False:
        yield "add_bias_linear", f"False {place}", "True for an activation of gelu alone"
    if function == "quick_gelu" and not gated:
        yield "gated_linear_unit", f"off {place}", "on for quick_gelu"
    if offset not in (None, 0, 0.0) and function != "quick_gelu":
        yield "glu_linear_offset", str(offset)[:60], f"0 {place}, or quick_gelu"
    if own["use_te_activation_func"] is True:
        yield "use_te_activation_func", place, "one of them"


ACTIVATION: Final = (
    "activation_func", "gated_linear_unit", "glu_linear_offset", "activation_func_fp8_input_store",
    "bias_activation_fusion", "add_bias_linear", "use_te_activation_func",
)  # fmt: skip
"""Fields of the activation that others contradict."""

TARGETED: Final = "its own"
"""Stands for the modules that LoRA has where none are said."""


def _empty(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield fields that are said to be nothing where that is none of the choices."""
    if fields.get("optimizer.optimizer") == "":
        yield "optimizer.optimizer", "''", "adam or sgd"
    if fields.get("peft") == "LoRA" and fields.get("peft.target_modules", TARGETED) in (None, []):
        yield "peft.target_modules", "none, so all linear layers", "a list of modules"
    elif fields.get("peft") == "LoRA":
        wrong = adapter_fault(fields.get("peft.target_modules"), is_latent(fields, ""))
        yield from [("peft.target_modules", *wrong)] if wrong else []
    blended = any(_said(fields, "dataset", name) for name in ("blend", "data_path"))
    if fields.get("dataset") == "GPTDatasetConfig" and blended and not _said(fields, "dataset", "split"):
        yield "dataset.split", "nothing", "the shares of training, validation and test"


def _passed_over(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield fields that the first forward ends with: a loss that nobody has, YaRN without its numbers."""
    kernel = fields.get("model.cross_entropy_fusion_impl")
    if isinstance(kernel, str) and kernel not in LOSS_KERNELS:
        yield "cross_entropy_fusion_impl", repr(kernel)[:60], f"one of {', '.join(LOSS_KERNELS)}"
    if fields.get("model.position_embedding_type") == "yarn":
        usual = None if fields.get("model") == "GPTModelProvider" else 1.0
        yield from (
            (name, "None", "a number: positions are YaRN's")
            for name in YARN
            if fields.get(f"model.{name}", usual) is None
        )


LOSS_KERNELS: Final = ("native", "te")
"""What compute_language_model_loss of Megatron-core knows; another one leaves it without a loss."""

YARN: Final = ("yarn_beta_fast", "yarn_beta_slow", "yarn_rotary_scaling_factor")
"""Numbers that Megatron-core's YaRN multiplies with; those of a provider of none but its fields are None."""

FUSED: Final = ("gelu", "silu", "quick_gelu")
"""Megatron-core, transformer/transformer_config.py: activations that are fused with a bias."""


def _precision(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the recipe of mixed precision, and number formats of states, that are not taken."""
    recipe = fields.get("mixed_precision.", fields.get("mixed_precision"))
    own = recipe is None or "Config" in str(recipe) or str(recipe).replace("-", "_") in RECIPES
    if not own:
        yield "mixed_precision", repr(str(recipe)[:60]), f"one of {', '.join(RECIPES)}"
    aware = fields.get("optimizer.use_precision_aware_optimizer") is True
    for name in STATES:
        if not aware and fields.get(f"optimizer.{name}") not in (None, "torch.float32"):
            yield (
                name,
                str(fields[f"optimizer.{name}"]),
                "torch.float32, or use_precision_aware_optimizer too",
            )


def _together(fields: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[Fault]:
    """Yield fields that another contradicts."""
    degrees = {
        name: int(options[name]) for name in ("tp", "pp", "cp", "ep") if is_whole(options.get(name, ""))
    }
    length, tokens = fields.get("model.seq_length"), fields.get("dataset.seq_length")
    if length is not None and tokens is not None and length != tokens:
        yield "seq_length", f"{length} of the model and {tokens} of the data", "the same in both"
    if fields.get("model.cpu_offloading") is True and degrees.get("pp", 1) > 1:
        yield "cpu_offloading", f"with {degrees['pp']} pipeline stages", "one stage"
    if fields.get("dist.use_megatron_fsdp") is True and fields.get("ddp.use_megatron_fsdp") is not True:
        yield "dist.use_megatron_fsdp", "without ddp.use_megatron_fsdp", "the same in both"
    sizes = fields.get("model.hierarchical_context_parallel_sizes")
    whole = isinstance(sizes, list | tuple) and all(type(size) is int for size in sizes)
    if whole and prod(sizes or ()) != degrees.get("cp", 1):
        yield "hierarchical_context_parallel_sizes", str(sizes), f"a product of {degrees.get('cp', 1)}"
    yield from _groups(fields, options, degrees)
    yield from _exchanges(fields, degrees)
    yield from _copies(fields, options, degrees)


def _groups(
    fields: Mapping[str, Any], options: Mapping[str, str], degrees: Mapping[str, int]
) -> Iterator[Fault]:
    """Yield a round of virtual stages that its micro-batches do not make up.

    Megatron-core, pipeline_parallel/schedules.py, ``forward_backward_pipelining_with_interleaving``.
    """
    group, pp = fields.get("model.microbatch_group_size_per_vp_stage"), degrees.get("pp", 1)
    if type(group) is not int:
        return
    sizes = [options.get(name, "") for name in ("global_batch", "micro_batch", "gpus")]
    passes = None
    if all(is_whole(size) and int(size) for size in sizes):
        batch, micro, gpus = map(int, sizes)
        passes = batch * degrees.get("tp", 1) * pp * degrees.get("cp", 1) // (micro * gpus)
    long = options.get("vpp", "1") != "1" and passes and (group > passes or 0 < passes % group < pp)
    if group < pp or long:
        most = f" to all {passes} micro-batches, none of them shorter than {pp}" if passes else " or more"
        yield "microbatch_group_size_per_vp_stage", str(group), f"rounds of {pp}{most}"


def _run(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what contradicts itself in the length of the run, its schedule and its data."""
    lengths = [
        name for name in ("train_iters", "train_samples", "num_epochs") if _said(fields, "train", name)
    ]
    if len(lengths) > 1:
        yield f"train.{lengths[1]}", f"with {lengths[0]}", "one of them"
    if lengths and lengths[0] != "train_iters" and _said(fields, "train", "rampup_batch_size"):
        yield "train.rampup_batch_size", f"with {lengths[0]}", "train_iters in its place"
    warm = [f"lr_warmup_{unit}" for unit in ("iters", "samples")]
    warm = [name for name in warm if fields.get(f"scheduler.{name}") not in (None, 0)]
    if warm and _said(fields, "scheduler", "lr_warmup_fraction"):
        yield "scheduler.lr_warmup_fraction", f"with {warm[0]}", "one of them"
    iters, samples = (
        f"lr_warmup_{unit}" in warm
        or _said(fields, "scheduler", f"lr_decay_{unit}")
        or _said(fields, "scheduler", f"lr_wsd_decay_{unit}")
        for unit in ("iters", "samples")
    )
    if iters and samples:
        yield "scheduler", "iterations beside samples", "one of them"
    start = fields.get("scheduler.start_weight_decay")
    if isinstance(start, int | float) and start < 0:
        yield "scheduler.start_weight_decay", str(start), "0 or more"
    kind = fields.get("dataset")
    if kind in ("GPTDatasetConfig", "MockGPTDatasetConfig"):
        if not (_said(fields, "dataset", "seq_length") or _said(fields, "dataset", "sequence_length")):
            yield "dataset.seq_length", "nothing", "the tokens of a sequence, as the model has them"
        for name in ASKED if kind == "GPTDatasetConfig" else ():
            if not _said(fields, "dataset", name):
                yield f"dataset.{name}", "nothing", "true or false"


def _said(fields: Mapping[str, Any], section: str, name: str) -> bool:
    return fields.get(f"{section}.{name}") is not None


def _saving(fields: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield formats of checkpoints that what is asked for excludes."""
    form, spread = fields.get("checkpoint.ckpt_format", "torch_dist"), ("torch_dist", "fsdp_dtensor")
    if fields.get("checkpoint.async_save") is True:
        if form not in spread:
            yield "checkpoint.async_save", f"with ckpt_format {form!r}", f"one of {', '.join(spread)}"
        if not _said(fields, "checkpoint", "save"):
            yield "checkpoint.async_save", "without save", "the folder in checkpoint.save"
    kept = _said(fields, "checkpoint", "save") or _said(fields, "checkpoint", "load")
    if kept and form == "fsdp_dtensor" and fields.get("ddp.use_megatron_fsdp") is not True:
        yield "checkpoint.ckpt_format", "fsdp_dtensor without ddp.use_megatron_fsdp", "torch_dist"
    if fields.get("dist.use_megatron_fsdp") is True and fields.get("dist.use_torch_fsdp2") is True:
        yield "dist.use_torch_fsdp2", "with dist.use_megatron_fsdp", "one of them"
    quiet = fields.get("dist.use_gloo_process_groups") is False
    if fields.get("dist.use_decentralized_pg") is True and not quiet:
        yield "dist.use_decentralized_pg", "with Gloo's groups", "dist.use_gloo_process_groups=False"
    if quiet and fields.get("optimizer.use_distributed_optimizer") is True and form not in spread:
        yield "checkpoint.ckpt_format", f"{form!r} without Gloo's groups", f"one of {', '.join(spread)}"


def _exchanges(fields: Mapping[str, Any], degrees: Mapping[str, int]) -> Iterator[Fault]:
    overlap = fields.get("comm_overlap.overlap_moe_expert_parallel_comm") is True
    name = "overlap_moe_expert_parallel_comm"
    if overlap and degrees.get("ep", 1) < 2:
        yield name, "without expert parallelism", "expert_model_parallel_size of 2 or more"
    if overlap and fields.get("model.recompute_granularity") == "full":
        yield name, "with full recomputation", "selective recomputation, or none"
    if fields.get("comm_overlap.defer_embedding_wgrad_compute") is True:
        limit = fields.get("comm_overlap.wgrad_deferral_limit")
        fused = fields.get("model.gradient_accumulation_fusion") is not False
        if degrees.get("pp", 1) < 2 or not fused or (type(limit) is int and limit < 0) or limit is None:
            expected = "pipeline stages, gradient_accumulation_fusion and a wgrad_deferral_limit of 0 or more"
            yield "defer_embedding_wgrad_compute", "without what it needs", expected
    if fields.get("comm_overlap.delay_wgrad_compute") is True and not overlap:
        yield "delay_wgrad_compute", f"without {name}", "both"


def _copies(
    fields: Mapping[str, Any], options: Mapping[str, str], degrees: Mapping[str, int]
) -> Iterator[Fault]:
    copies, gpus = fields.get("ddp.num_distributed_optimizer_instances"), options.get("gpus", "")
    name = "num_distributed_optimizer_instances"
    if type(copies) is not int:
        return
    shards = int(gpus) // max(1, degrees.get("tp", 1) * degrees.get("pp", 1)) if is_whole(gpus) else None
    if copies < 1:
        yield name, str(copies), "1 or more"
    elif shards and shards % copies:
        yield name, str(copies), f"a divisor of {shards} data-parallel ranks"
