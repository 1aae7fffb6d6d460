"""A NeMo Automodel YAML (``automodel FILE``) as the options of a plan.

Its meshes and engine are PyTorch's own: a dense model on FSDP2 is priced as FSDP, pipelines, experts and
split sequences as torchtitan, both with Automodel's dtypes, loss and compilation.

References
----------
.. [1] NeMo Automodel, nemo_automodel/recipes/_dist_utils.py (keys of ``distributed``),
   recipes/llm/train_ft.py and components/training/step_scheduler.py (sums),
   components/distributed/pipelining/functional.py (stages), components/moe/parallelizer.py (weights of
   experts' blocks stay gathered).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from math import ceil
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.hub_settings import reduced_in
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.passed_over import off, on, passed_over, tell
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import LAYERS, say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, TrainerLaunch
from planner.runtimes.megatron_lm.reading.megatron_names import known_model
from planner.runtimes.torchtitan.reading import torchtitan
from planner.runtimes.torchtitan.schedules import SCHEDULES

D: Final = "distributed."
OLD: Final = "parallelizer."
"""Where releases before had the recompute of experts' blocks."""

SIZES: Final = {"tp": "tp_size", "pp": "pp_size", "cp": "cp_size", "ep": "ep_size"}
RECIPES: Final = ("TrainFinetuneRecipeForNextTokenPrediction", "BenchmarkingRecipeForNextTokenPrediction")
LENGTHS: Final = ("packed_sequence.packed_sequence_size", "dataset.seq_len", "dataset.seq_length")
NAMES: Final = (
    *("model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path"),
    *("model.config.name_or_path", "model.config"),
)
ADAM: Final = re.compile(r".*\.(?:Adam|AdamW|FusedAdam|FusedAdamW)")
SHAPES: Final = re.compile(
    r"model\.(?:config\.)?(?:num_hidden_layers|hidden_size|intermediate_size|moe_intermediate_size|vocab_size"
    r"|num_attention_heads|num_key_value_heads|num_experts|num_local_experts|n_routed_experts|num_experts_per_tok"
    r"|text_config\..*)"
)
"""Keys that change the shape of the model that is named."""

WITHOUT_EFFECT: Final = re.compile(
    r"(?:dist_env|rng|checkpoint|dataset|dataloader|validation_.*|_validation_.*|lr_scheduler|wandb|mlflow|comet|ci"
    r"|tokenizer|clip_grad_norm|skypilot|slurm|logging|benchmark|processor|profiling|freeze_config)(?:\..*)?"
    r"|recipe(?:\..*)?|seed|nvtx|run_.*|step_scheduler\..*|optimizer\.(?!_target_).*|loss_fn\..*|compile\..*|fp8\..*"
    r"|peft\.(?:_target_|alpha|dropout_.*|exclude_modules|lora_A_init|use_triton|use_memory_efficient_lora"
    r"|moe_rank_scaling|lora_dtype)|quantization\.bnb_.*|packed_sequence\..*"
    r"|model\.(?:_target_|trust_remote_code|attn_implementation|use_.*|output_hidden_states|force_hf|load_base_model"
    r"|cache_dir|revision|backend\.(?!te_fp8).*|config\.(?:_target_|trust_remote_code|_?attn_.*|use_cache|.*_token_id"
    r"|architectures|initializer_range|max_position_embeddings|rms_norm_eps|rope_theta|hidden_act|torch_dtype|revision"
    r"|router_aux_loss_coef|norm_topk_prob))"
    r"|parallelizer\._target_|distributed\.(?:_target_|backend|defer_.*|patch_.*|tp_plan|enable_.*|moe\..*|moe|mp_policy\..*|pipeline\..*"
    r"|pipeline|autocast_dtype)"
)
"""Keys that decide neither layout nor what is kept in memory, and those whose values are read below."""

EAGER: Final = ("model.attn_implementation", "model.config.attn_implementation", "model.backend.attn")
TOLD: Final = (
    passed_over(r"freeze_config\.freeze_(?:embeddings|language_model)", on, "priced as if it learned"),
    passed_over(r"freeze_config\.freeze_(?:vision|audio)_tower", off, "priced without it"),
    passed_over(r"optimizer\.store_param_remainders", on, "priced with a whole master copy, 2 bytes more"),
    passed_over(r"packed_sequence\.split_across_pack", off, "packs are priced as full"),
)
"""What is not priced; nothing in it decides the layout."""

UNPRICED: Final = {
    "kd_ratio": "next-token training: distillation is not priced",
    "teacher_model": "next-token training: distillation is not priced",
    "model.backend.te_fp8": "bf16: experts alone in fp8 are not priced; or --precision fp8 for all layers",
    "qat": "off: quantisation-aware training is not priced",
}


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has Automodel's model and scheduler."""
    model = tree.get("model")
    named = isinstance(model, Mapping) and "_target_" in model
    return named and isinstance(tree.get("step_scheduler"), Mapping) and "loss_fn" in tree


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the file says, with Automodel's defaults."""
    sheet = Sheet(str(path), flat(interpolated(_older(tree))))
    _kind(sheet)
    degrees = _mesh(sheet, launch)
    _batch(sheet, degrees)
    _length(sheet)
    model = model_named(sheet, path, *NAMES)
    _own_shape(sheet)
    _stages(sheet, degrees["pp"], model)
    _numbers(sheet)
    _optimizer(sheet)
    runtime = _runtime(sheet, degrees)
    _settings(sheet, runtime)
    _method(sheet)
    trainer.refuse(sheet, UNPRICED, {"model.backend.te_fp8": "precision"})
    if any(str(sheet.values.get(key)).lower() == "eager" for key in EAGER):
        sheet.changes.append("attention=unfused")
    tell(sheet, TOLD)
    sheet.ignore(WITHOUT_EFFECT)
    sheet.notes.append(f"a recipe of NeMo Automodel: priced as {runtime}, with its own dtypes")
    found = replace(sheet.imported(runtime, model_name=model), lifted=(*OF_OUR_FILES, "one-training-dtype"))
    if runtime == "fsdp":
        return found
    if "method" in found.options:  # torchtitan's adapters rest in float32 beside weights in 16 bits
        kept = {key: value for key, value in found.options.items() if not key.endswith("_dtype")}
        found = replace(found, options=kept, notes=(*found.notes, "adapters are priced in float32"))
    return torchtitan.plain(replace(found, lifted=(*OF_OUR_FILES, "model-in-torchtitan")))


def _older(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file with the pipeline of releases that had it at the top, in its place of today."""
    inner, old = tree.get("distributed"), tree.get("autopipeline")
    if not isinstance(inner, Mapping) or not isinstance(old, Mapping):
        return dict(tree)
    rest = {key: value for key, value in tree.items() if key != "autopipeline"}
    return {**rest, "distributed": {**inner, "pipeline": old}}


def _kind(sheet: Sheet) -> None:
    """Check that it trains a language model on the next token."""
    key = "recipe._target_" if "recipe._target_" in sheet.values else "recipe"
    name = str(sheet.take(key) or RECIPES[0]).rpartition(".")[2]
    if name not in RECIPES:
        sheet.fault(key, name[:60], f"{' or '.join(RECIPES)}: others are not priced")
    target = str(sheet.values.get("model._target_"))
    if "CausalLM" not in target:
        sheet.fault("model._target_", target[-60:], "NeMoAutoModelForCausalLM: others are not priced")


def _mesh(sheet: Sheet, launch: TrainerLaunch) -> dict[str, int]:
    """Say degrees, shards and accelerators; return the degrees."""
    unset = ("none", "auto", "null", "None")
    sheet.values = {key: None if value in unset else value for key, value in sheet.values.items()}
    degrees = {}
    for option, name in SIZES.items():
        size = sheet.whole(D + name)
        degrees[option] = max(1, size or 1)
        sheet.say(option, size or 1, D + name)
    dp, copies = sheet.whole(f"{D}dp_size"), sheet.whole(f"{D}dp_replicate_size")
    others = degrees["tp"] * degrees["pp"] * degrees["cp"]
    nodes = sheet.whole("benchmark.num_nodes", "skypilot.num_nodes", "ci.nodes")
    if launch.gpus is not None:
        sheet.say("gpus", launch.gpus)
    elif dp:
        sheet.say("gpus", dp * others, f"{D}dp_size")
    elif nodes:
        sheet.say("nodes", nodes, "benchmark.num_nodes", "skypilot.num_nodes", "ci.nodes")
    if copies and copies > 1:
        gpus = int(sheet.options.get("gpus", "0"))
        if gpus and gpus % (others * copies) == 0:
            sheet.say(
                "zero_shards", gpus // (degrees["tp"] * degrees["pp"] * copies), f"{D}dp_replicate_size"
            )
        else:
            sheet.fault(f"{D}dp_replicate_size", str(copies), "a known world: --gpus N and --zero-shards N")
            sheet.instead[f"{D}dp_replicate_size"] = "zero_shards"
    _sharding(sheet, degrees)
    if degrees["cp"] > 1:
        sheet.say("cp_method", "all-gather", f"{D}cp_size")
    if degrees["tp"] > 1 and sheet.has(f"{D}sequence_parallel"):
        sheet.say("sequence_parallel", "true", f"{D}sequence_parallel")
    sheet.seen.add(f"{D}sequence_parallel")
    return degrees


def _sharding(sheet: Sheet, degrees: Mapping[str, int]) -> None:
    """Say the stage: blocks with experts and those of a pipeline keep weights gathered unless told."""
    strategy = str(sheet.take(f"{D}strategy") or "fsdp2").lower()
    hosted = [key for key in sheet.values if key.startswith(f"{D}offload_policy")]
    if any(sheet.values[key] is not None for key in hosted):
        sheet.say("offload", "weights", f"{D}offload_policy")
    sheet.seen.update(hosted)
    again = sheet.take(f"{D}moe.reshard_after_forward" if degrees["ep"] > 1 else f"{D}reshard_after_forward")
    sheet.seen.add(f"{D}reshard_after_forward")
    if strategy not in ("fsdp2", "ddp"):
        expected = "fsdp2 or ddp; or --runtime megatron-bridge, which has Megatron's own FSDP"
        sheet.fault(f"{D}strategy", strategy, expected)
        sheet.instead[f"{D}strategy"] = "runtime"
    kept = again is None and (degrees["ep"] > 1 or degrees["pp"] > 1)
    stage = 2 if kept or str(again).lower() == "false" else 3
    sheet.say("zero", 0 if strategy == "ddp" else stage, f"{D}strategy")


def _batch(sheet: Sheet, degrees: Mapping[str, int]) -> None:
    """Say the batch of a step and the sequences of a pass; a pipeline cuts those of a rank again."""
    batch = sheet.whole("step_scheduler.global_batch_size")
    local = sheet.whole("step_scheduler.local_batch_size")
    piece = sheet.whole(f"{D}pipeline.pp_microbatch_size")
    local = 1 if local is None else local
    micro = (piece or 1) if degrees["pp"] > 1 else local
    key = f"{D}pipeline.pp_microbatch_size" if degrees["pp"] > 1 else "step_scheduler.local_batch_size"
    sheet.say("micro_batch", micro, key)
    sheet.say("global_batch", 32 if batch is None else batch, "step_scheduler.global_batch_size")
    gpus = int(sheet.options.get("gpus", "0"))
    ranks = gpus // (degrees["tp"] * degrees["pp"] * degrees["cp"])
    if ranks and batch and (local < 1 or batch % (local * ranks)):
        expected = f"a multiple of local_batch_size {local} x dp {ranks}"
        sheet.fault("step_scheduler.global_batch_size", str(batch), expected)
    if degrees["pp"] > 1 and local // max(1, micro) < degrees["pp"]:
        found = f"{local} // pp_microbatch_size {micro}"
        sheet.fault("step_scheduler.local_batch_size", found, f"pp_size {degrees['pp']} or more passes")


def _length(sheet: Sheet) -> None:
    """Say the tokens of a sequence: of a pack, or as the data set is cut."""
    sizes = [(key, sheet.whole(key)) for key in LENGTHS]
    key, tokens = next(((key, size) for key, size in sizes if size), ("sequence length", None))
    if tokens is None:
        sheet.fault(key, "nothing: as long as the data is", "the tokens of a sequence: --seq-len N")
        sheet.instead[key] = "seq_len"
    sheet.say("seq_len", tokens, key)


def _own_shape(sheet: Sheet) -> None:
    changed = [key for key in sheet.values if SHAPES.fullmatch(key) and sheet.values[key] is not None]
    if changed:
        expected = "the shape of the model that is named; else name the model: planner estimate MODEL --from"
        sheet.fault(changed[0], str(sheet.values[changed[0]])[:40], expected)
        sheet.instead[changed[0]] = "model"
    sheet.seen.update(changed)
    extra = sheet.whole("model.num_nextn_predict_layers", "model.config.num_nextn_predict_layers")
    if extra:
        sheet.fault("model.num_nextn_predict_layers", str(extra), "0: prediction layers are not priced here")


def _stages(sheet: Sheet, pp: int, model: str | None) -> None:
    """Say schedule and chunks, rounded as Automodel does."""
    name = str(sheet.take(f"{D}pipeline.pp_schedule") or "1f1b")
    if pp <= 1:
        return
    known = torchtitan.OURS.get(name.lower().removeprefix("schedule"))
    sheet.say("schedule", known or name, f"{D}pipeline.pp_schedule")
    several = known is not None and SCHEDULES[known].least_chunks > 1
    each = sheet.whole(f"{D}pipeline.layers_per_stage")
    spec = known_model(model)
    chunks = 2 if several else 1
    if each and spec is not None:
        stages = ceil(spec.num_layers / each)
        word = sheet.values.get(f"{D}pipeline.round_virtual_stages_to_pp_multiple")
        stages += -stages % pp if word == "up" else -(stages % pp) if word == "down" else 0
        if stages % pp or (stages // pp > 1) != several:
            found = f"{each}, so {stages} stages over pp {pp}"
            expected = "two or more stages on each rank" if several else "one stage on each rank"
            sheet.fault(f"{D}pipeline.layers_per_stage", found, expected)
        chunks = max(1, stages // pp)
    sheet.say("vpp", chunks, f"{D}pipeline.layers_per_stage")


def _numbers(sheet: Sheet) -> None:
    """Say what it computes in, and what weights, gradients and states are kept in."""
    own = str(sheet.take("model.torch_dtype", "model.dtype") or "bfloat16").removeprefix("torch.")
    computed = str(sheet.take(f"{D}mp_policy.param_dtype") or "bfloat16").removeprefix("torch.")
    if computed not in ("bfloat16", "bf16"):
        sheet.fault(f"{D}mp_policy.param_dtype", computed, "bfloat16; or --precision for another")
        sheet.instead[f"{D}mp_policy.param_dtype"] = "precision"
    eight = sheet.has("fp8.enabled") or (sheet.has("fp8.recipe_name") and "fp8.enabled" not in sheet.values)
    sheet.say("precision", "fp8" if eight else "bf16", "fp8.enabled")
    if eight and str(sheet.values.get("fp8.recipe_name") or "tensorwise") == "tensorwise":
        sheet.changes.append("float8_scales=tensor")
    if own not in ("float32", "fp32"):
        for kind in ("state", "master", "gradient"):
            sheet.say(f"{kind}_dtype", "bf16", "model.torch_dtype")


def _optimizer(sheet: Sheet) -> None:
    """Say the optimizer; Transformer Engine's may keep a float32 copy and states beside weights in bf16."""
    name = str(sheet.take("optimizer._target_") or "torch.optim.Adam")
    sheet.instead["optimizer._target_"] = "optimizer"
    if not ADAM.fullmatch(name):
        sheet.fault("optimizer._target_", name[-60:], "Adam or AdamW; or --optimizer NAME for a like one")
    sheet.say("optimizer", "adamw", "optimizer._target_")
    if name.endswith("FusedAdam") and sheet.has("optimizer.master_weights"):
        kinds = {str(sheet.values.get(f"optimizer.{key}")) for key in ("exp_avg_dtype", "exp_avg_sq_dtype")}
        sheet.say("master_dtype", "fp32", "optimizer.master_weights")
        half = kinds <= {"torch.bfloat16", "bfloat16"}
        sheet.say("state_dtype", "bf16" if half else "fp32", "optimizer.exp_avg_dtype")


def _runtime(sheet: Sheet, degrees: Mapping[str, int]) -> str:
    """Return the runtime that has the mesh and the numbers of the file."""
    split = degrees["pp"] > 1 or degrees["ep"] > 1 or "sequence_parallel" in sheet.options
    again = str(sheet.take(f"{D}activation_checkpointing", f"{OLD}activation_checkpointing")).lower()
    return "torchtitan" if split or sheet.options["precision"] == "fp8" or again == "selective" else "fsdp"


def _settings(sheet: Sheet, runtime: str) -> None:
    """Say recompute, compilation and loss."""
    again = str(
        sheet.take(f"{D}activation_checkpointing", f"{OLD}activation_checkpointing") or "false"
    ).lower()
    words = {"true": "full", "full": "full", "false": "none", "selective": "selective"}
    if again not in words:
        sheet.fault(f"{D}activation_checkpointing", again, "true, false, full or selective")
    sheet.say("recompute", words.get(again, "none"), f"{D}activation_checkpointing")
    compiled = sheet.has("compile.enabled", f"{D}enable_compile")
    if compiled != (runtime == "torchtitan"):
        sheet.changes.append(f"compiled={str(compiled).lower()}")
    if runtime == "torchtitan":
        chunked = "Linear" in str(sheet.values.get("loss_fn._target_"))
        sheet.changes += [] if chunked else ["loss_chunks=1"]
        sheet.changes += _experts(sheet)
    else:
        reduced = str(sheet.values.get(f"{D}mp_policy.reduce_dtype") or "float32").removeprefix("torch.")
        sheet.changes += reduced_in(reduced, "fp32")
        if "Linear" in str(sheet.values.get("loss_fn._target_")):
            trainer.fused_loss(sheet, "a loss fused with the head: priced as Liger's")


def _experts(sheet: Sheet) -> list[str]:
    """Return the settings of experts' messages, and of a benchmark's gate that takes neighbouring experts."""
    if int(sheet.options["ep"]) <= 1:
        return []
    fused = str(sheet.values.get("model.backend.dispatcher")) in ("deepep", "hybridep", "uccl_ep")
    near = str(sheet.values.get("model.backend.fake_balanced_gate")).lower() == "true"
    return [*(["dispatcher=fused"] if fused else []), *(["neighbouring_experts=true"] if near else [])]


def _method(sheet: Sheet) -> None:
    """Say adapters; patterns of names count as the layers that they take."""
    if not any(key.startswith("peft.") for key in sheet.values):
        return
    four, eight = sheet.has("quantization.load_in_4bit"), sheet.has("quantization.load_in_8bit")
    if eight and not four:
        sheet.fault("quantization.load_in_8bit", "true", "4 bits or none; or --method lora or qlora")
        sheet.instead["quantization.load_in_8bit"] = "method"
    words = sheet.take("peft.target_modules")
    every = sheet.has("peft.match_all_linear") or words in (None, [], "all-linear")
    patterns = [str(word).rpartition(".")[2] for word in words] if isinstance(words, list) else [str(words)]
    names = ["all"] if every else [name for pattern in patterns for name in _layers(pattern)]
    sheet.values = {**sheet.values, "peft.target_modules": names}
    targets, dropout = ("peft.target_modules", ("all",)), ("peft.dropout", 0.0)
    say_adapter(sheet, 4 if four else 16, ("peft.dim", 8), targets, dropout)
    trainer.refuse(sheet, {"peft.use_dora": "plain adapters: what is trained beside them is not priced"})


def _layers(pattern: str) -> list[str]:
    """Return the layers that a pattern takes, or itself where there is none.

    Examples
    --------
    >>> _layers("*_proj")[:3], _layers("lm_head")
    (['q_proj', 'k_proj', 'v_proj'], ['lm_head'])
    """
    return [name for name in LAYERS if fnmatch(name, pattern)] or [pattern]
