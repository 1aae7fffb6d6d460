"""A Megatron-LM script's arguments as the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.inputs.model import ModelSpec
from planner.runtimes.imports.command_flags import overridden
from planner.runtimes.imports.command_line import DOUBT, Training
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.megatron_bridge.reading.core_settings import graph_setting
from planner.runtimes.megatron_lm.context import CP_COMM, SIZES_FLAG
from planner.runtimes.megatron_lm.layout import layout_layers, layout_stages, stands_apart
from planner.runtimes.megatron_lm.reading.megatron_batches import last_batch
from planner.runtimes.megatron_lm.reading.megatron_forks import ALIBI, fork_sums, forked, unsaved
from planner.runtimes.megatron_lm.reading.megatron_hybrid import hybrid_program, hybrid_stages
from planner.runtimes.megatron_lm.reading.megatron_kernels import say_attention, say_loss, tell_lacking
from planner.runtimes.megatron_lm.reading.megatron_kinds import number_kinds, other_words, word_counts
from planner.runtimes.megatron_lm.reading.megatron_layout_sums import PARTITION, WITH_ENDS
from planner.runtimes.megatron_lm.reading.megatron_mindspeed import tuned, with_repeated_keys
from planner.runtimes.megatron_lm.reading.megatron_model import model_record
from planner.runtimes.megatron_lm.reading.megatron_names import BY_LENGTH, UNDELAYED
from planner.runtimes.megatron_lm.reading.megatron_offload import offloaded
from planner.runtimes.megatron_lm.reading.megatron_run_sums import DROPPED
from planner.runtimes.megatron_lm.reading.megatron_sums import (
    connection_sums,
    megatron_sums,
    overridden_values,
)
from planner.runtimes.megatron_lm.reading.megatron_zero import LAYER_WISE, say_zero
from planner.runtimes.megatron_lm.recompute import MODULES
from planner.runtimes.megatron_lm.settings import PRECISION_AWARE
from planner.runtimes.megatron_lm.sharding_rules import OPTIMIZERS
from planner.runtimes.megatron_lm.table import DEGREES, RECIPES
from planner.units import is_whole

INSTEAD: Final = {
    "--num-layers-per-virtual-pipeline-stage": "vpp",
    "--num-virtual-stages-per-pipeline-rank": "vpp",
    "--decoder-first-pipeline-num-layers": "stage_layers",
    "--decoder-last-pipeline-num-layers": "stage_layers",
}
"""Flags whose fault an option lifts that is made of several of them."""

NAMES: Final = {theirs: ours for ours, theirs in OPTIMIZERS.items()}
METHODS: Final = {ours: theirs for theirs, ours in CP_COMM.items()}
OURS: Final = {theirs: ours for ours, theirs in MODULES.items()}

WITHOUT_EFFECT: Final = re.compile(
    r"--(?:"
    r"lr(?:-.*)?|min-lr|train-.*|eval-.*|exit-.*|save(?:-.*)?|load|log-.*|tensorboard-.*|wandb-.*|seed|split"
    r"|data-.*|mock-data|tokenizer-.*|vocab-file|merge-file|weight-decay.*|adam-.*|clip-grad|init-method-std"
    r"|distributed-.*|dist-.*|num-workers|timing-.*|ckpt-.*|async-save|no-load-.*|no-save-.*|finetune"
    r"|rotary-.*|rope-.*|use-rotary-position-embeddings|use-rope-scaling|norm-epsilon|no-rope-fusion"
    r"|make-vocab-size-divisible-by|padded-vocab-size|attention-dropout|hidden-dropout|transformer-impl"
    r"|use-mcore-models|use-legacy-models|manual-gc.*|no-create-attention-mask-in-dataloader|override-.*"
    r"|moe-router-(?:dtype|load-balancing-type|score-function|bias-update-rate|topk-scaling-factor"
    r"|num-groups|group-topk|pre-softmax|padding-for-quantization|force-load-balancing)"
    r"|moe-aux-loss-coeff|moe-z-loss-coeff|moe-grouped-gemm|moe-permute-fusion"
    r"|microbatch-group-size-per-virtual-pipeline-stage|megatron-fsdp-version|use-mcore|mtp-loss-.*"
    r"|decay-.*|loss-scale|initial-loss-scale|hysteresis|reset-.*|eod-mask-loss"
    r"|overlap-cpu-optimizer-d2h-h2d|attention-softmax-in-fp32|no-.*-fusion|cross-entropy-.*|dataloader-type"
    r"|check-for-nan-in-loss-and-grad|bias-swiglu-fusion|report-.*|profile.*|use-checkpoint-.*"
    r"|fp8-amax-.*|fp8-margin|fp8-interval|overlap-grad-reduce|overlap-param-gather|attention-backend"
    r"|use-flash-attn(?:-v[12]|-triton)?|moe-flex-dispatcher-backend|moe-enable-deepep|sequence-parallel"
    r"|no-position-embedding|apply-layernorm-1p|decoupled-.*|empty-unused-memory-level|tiktoken-pattern"
    r"|ddp-average-in-collective|use-(?:pytorch|hip)-profiler|pytorch-profiler-.*"
    r"|paged-kv-block-size|cp-attention-mask-type|moe-router-fusion|min-loss-scale|init-model-with-meta-device|fsdp-manual-registration|no-mmap-bin-files|logging-level|no-check-for-nan-in-loss-and-grad|record-memory-history|deepspeed-.*"
    r"|max-seqlen-per-dp-cp-rank|dataloader-inter-document-masking"
    r"|moe-paged-stash.*|moe-expert-rank-capacity-factor|moe-pad-experts-for-cuda-graph-inference|te-rng-tracker"
    r"|spec|is-hybrid-model|mamba-chunk-size|fim-.*|valid-.*|test-(?:data|weighted).*|structured-logs.*|no-query-key-layer-scaling|apply-query-key-layer-scaling"
    r"|no-pipeline-parallel|no-async-tensor-model-parallel-allreduce|universal-checkpoint"
    r"|no-barrier-with-level-1-timing|zero-bubble-.*timers.*|merge-file|tokenizer-file|special-.*"
    r"|num-dataset-builder-threads|no-log-.*|repeated-dataloader|DDP-impl|wandb_.*|trigger-path|cuda-graph-warmup-steps|calculate-per-token-loss|enable-experimental|result-rejected-tracker-filename"
    r")"
)
"""Flags that decide neither layout nor shape; where they change speed, the runtime's traits are priced."""


def from_script(
    training: Training, where: str, named: ModelSpec | None = None
) -> tuple[Imported, dict[str, Any] | None]:
    """Return what the arguments say, and the record of the model with its vocabulary as far as it is said.

    Of a model that is ``named`` the arguments need not describe the shape.

    Raises
    ------
    InputError
        With every fault of the arguments.
    """
    flags, notes = forked(training.flags, training.gpus)
    if training.doubts and "--data-path" in flags:
        flags = {flag: value for flag, value in flags.items() if flag != "--mock-data"}
    sheet = Sheet(where, (DROPPED if training.words else {}) | flags)
    sheet.notes += notes
    sheet.changes += ["attention=unfused"] * (ALIBI in notes)
    sheet.changes += ["launch_blocking=true"] * (training.environment.get("CUDA_LAUNCH_BLOCKING") == "1")
    sheet.say("gpus", training.gpus)
    sheet.say("ranks", training.ranks if training.nodes != 1 else None)
    record = model_record(sheet) if named is None else named.model_dump()
    if sheet.problems:
        sheet.instead.update(dict.fromkeys(sheet.problems, "model"))
        record = None
    _degrees(sheet, record)
    _stages(sheet, record)
    _sharding(sheet)
    _recompute(sheet)
    _precision(sheet)
    _workload(sheet, training.gpus)
    megatron_sums(sheet, record)
    fork_sums(sheet)
    hybrid_program(sheet, training.words)
    adapted = tuned(sheet)
    replaced = list(overridden(training.words))
    overridden_values(sheet, replaced)
    number_kinds(sheet, [*sheet.values.items(), *replaced], parsed=bool(training.words))
    other_words(sheet)
    if training.words:
        tell_lacking(sheet)
        connection_sums(sheet, training.connections)
        word_counts(sheet, () if training.doubts else training.words)
    sheet.seen.update(key for key in flags if WITHOUT_EFFECT.fullmatch(key))
    unsaved(sheet)
    if training.doubts:
        names = ", ".join(training.doubts)
        sheet.notes.append(f"{names}: {DOUBT}")
    found = sheet.imported("megatron-bridge" if adapted else "megatron-lm")
    return with_repeated_keys(found, training.flags), record


def _degrees(sheet: Sheet, record: Mapping[str, Any] | None) -> None:
    for name in ("tp", "pp", "cp", "ep"):
        sheet.say(name, sheet.whole(DEGREES[name]), DEGREES[name])
    sheet.copy("etp", DEGREES["etp"])
    sparse = record is not None and any(
        (block.get("ffn") or {}).get("kind") == "moe" for block in record["blocks"].values()
    )
    if "etp" not in sheet.options and (sparse or "ep" in sheet.options):
        sheet.say("etp", sheet.options.get("tp", "1"), DEGREES["tp"])
        sheet.instead[DEGREES["tp"]] = "tp"
        sheet.places.setdefault("tp", DEGREES["tp"])
    if sheet.has("--sequence-parallel"):
        sheet.say("sequence_parallel", "true", "--sequence-parallel")
    if (ulysses := sheet.degree("--ds-sequence-parallel-size") or 1) > 1:
        sheet.say("cp", ulysses, "--ds-sequence-parallel-size")
        sheet.say("cp_method", "all-to-all", "--ds-sequence-parallel-size")
    method = sheet.take("--cp-comm-type")
    if method is not None:
        sizes = str(sheet.take(SIZES_FLAG) or "").split() if method == "a2a+p2p" else []
        inner = f":{sizes[0]}" if len(sizes) == 2 else ""
        sheet.say("cp_method", f"{METHODS.get(str(method), method)}{inner}", "--cp-comm-type")


def _stages(sheet: Sheet, record: Mapping[str, Any] | None) -> None:
    """Say the chunks of a rank, the schedule, and the layers of each virtual stage."""
    sheet.instead.update(INSTEAD)
    per_stage = sheet.whole("--num-layers-per-virtual-pipeline-stage")
    chunks = sheet.whole("--num-virtual-stages-per-pipeline-rank")
    layout = sheet.take("--pipeline-model-parallel-layout")
    parts = sheet.take(PARTITION)
    ends = (
        sheet.whole("--decoder-first-pipeline-num-layers"),
        sheet.whole("--decoder-last-pipeline-num-layers"),
    )
    extra = (
        sheet.has("--account-for-embedding-in-pipeline-split"),
        sheet.has("--account-for-loss-in-pipeline-split"),
    )
    if str(parts) == WITH_ENDS:
        extra = (True, True)
    elif parts is not None and str(parts) not in ("uniform", "parameters", "type:transformer"):
        sheet.instead[PARTITION] = "stage_layers"
        sheet.fault(PARTITION, repr(str(parts)), "type:transformer, or the layers of each stage")
    text = sheet.options.get("pp", "1")
    pp, layers = int(text) if is_whole(text) else 1, len(record["layers"]) if record is not None else None
    split: list[int] | None = None
    borders = hybrid_stages(sheet, layers)
    if borders is not None and len(borders) > 1:
        split = [len(stage) for stage in borders]
        chunks = len(split) // pp if pp > 0 and len(split) % pp == 0 else chunks
    elif layout is not None:
        split = layout_layers(str(layout))
        chunks = len(split) // pp if pp > 0 and len(split) % pp == 0 else chunks
    elif layers is not None and pp > 1:
        if per_stage:
            chunks = max(1, (layers + sum(extra)) // pp // per_stage)
        split = _even(layers, pp, chunks or 1, ends, extra)
    if chunks is not None and chunks != 1:
        sheet.say(
            "vpp", chunks, "--num-layers-per-virtual-pipeline-stage", "--pipeline-model-parallel-layout"
        )
    if split is not None and len(split) > 1:
        keys = ("--pipeline-model-parallel-layout", "--pipeline-model-parallel-size")
        words = [str(count) for count in split]
        if layout is not None and stands_apart(layout_stages(str(layout))):
            words[-2] += "m"
        sheet.say("stage_layers", ",".join(words), *keys)
    sheet.say("schedule", "interleaved-1f1b" if (chunks or 1) > 1 else "1f1b")


def _even(
    layers: int, pp: int, chunks: int, ends: tuple[int | None, int | None], extra: tuple[bool, bool]
) -> list[int] | None:
    """Return the layers of each virtual stage as Megatron-core cuts them, None where they do not divide."""
    first, last = ends
    if first is None and last is None:
        whole = layers + sum(extra)
        if whole % (pp * chunks):
            return None
        share = whole // (pp * chunks)
        return [share - extra[0], *[share] * (pp * chunks - 2), share - extra[1]]
    middle = pp - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if middle < 0 or rest % max(middle, 1) or (rest and not middle):
        return None
    share = rest // max(middle, 1)
    ranks = [share if first is None else first, *[share] * (pp - 2), share if last is None else last]
    if any(count % chunks for count in ranks):
        return None
    return [count // chunks for _ in range(chunks) for count in ranks]


def _sharding(sheet: Sheet) -> None:
    say_zero(sheet)
    if (instances := sheet.whole("--num-distributed-optimizer-instances") or 1) > 1:
        sheet.say("instances", instances, "--num-distributed-optimizer-instances")
    if not sheet.has("--overlap-grad-reduce"):
        sheet.changes.append("dp_exposed=1")
        sheet.notes.append(
            "no --overlap-grad-reduce: priced without overlap of data parallelism (dp_exposed=1)"
        )
    if sheet.take("--moe-token-dispatcher-type") == "flex":
        sheet.changes.append("dispatcher=fused")
    say_attention(sheet)
    _kernels(sheet, sheet.has("--use-megatron-fsdp", "--use-custom-fsdp", "--use-torch-fsdp2"))
    _graphs(sheet)


def _graphs(sheet: Sheet) -> None:
    """Say what runs as CUDA graphs; experts under a graph of all passes need the operator fuser."""
    modules = str(sheet.take("--cuda-graph-modules", "--cuda-graph-scope") or "").replace(",", " ").split()
    implementation = str(sheet.take("--cuda-graph-impl") or "")
    if sheet.has("--external-cuda-graph", "--enable-cuda-graph"):
        implementation = "transformer_engine"
    changes, notes = graph_setting(implementation, modules)
    sheet.changes += changes
    sheet.notes += notes
    if changes == ["cuda_graphs=passes"] and sheet.has("--moe-paged-stash"):
        sheet.changes[:] = [change for change in sheet.changes if change != "operator_fuser=true"]


def _kernels(sheet: Sheet, sharded: bool) -> None:
    """Say which fused kernels are switched off, and whether dropout runs; FSDP and latent attention must."""
    say_loss(sheet)
    activation = sheet.has("--no-bias-swiglu-fusion", "--no-bias-gelu-fusion")
    rope = sheet.has("--no-rope-fusion") and not sheet.has("--multi-latent-attention")
    gradient = sheet.has("--no-gradient-accumulation-fusion") and not sharded
    on = {
        "dynamic_context": sheet.has("--hybrid-context-parallel"),
        "operator_fuser": sheet.has("--use-transformer-engine-op-fuser"),
        "overlaps_experts": sheet.has("--overlap-moe-expert-parallel-comm"),
        "overlaps_shared_expert": _shares(sheet),
        "stages_inside": sheet.has("--use-tp-pp-dp-mapping"),
        "static_experts": sheet.has("--moe-pad-expert-input-to-capacity"),
    }
    if on["static_experts"] and _is_one(sheet.values.get("--moe-expert-capacity-factor")):
        sheet.seen.add("--moe-expert-capacity-factor")
    sheet.changes += [f"{name}=true" for name, wanted in on.items() if wanted]
    sheet.notes += [BY_LENGTH] if on["dynamic_context"] else []
    delayed = sheet.has("--delay-wgrad-compute")
    sheet.notes += [UNDELAYED] if on["overlaps_experts"] and not delayed else []
    if sheet.has("--fp8-output-proj"):
        sheet.changes.append("low_bit_head=mxfp8")
    if sheet.has("--tp-comm-overlap") and sheet.has("--sequence-parallel"):
        sheet.changes.append("tp_exposed=0.25")
    off = {"fused_activation": activation, "fused_rope": rope, "fused_weight_gradient": gradient}
    sheet.changes += [f"{name}=false" for name, wanted in off.items() if wanted]
    rates = (sheet.take("--attention-dropout"), sheet.take("--hidden-dropout"))
    if any(str(rate or 0).strip("0.") for rate in rates):
        sheet.changes.append("dropout=true")


def _shares(sheet: Sheet) -> bool:
    """Whether a shared expert, where there is one, runs beside messages."""
    width = str(sheet.values.get("--moe-shared-expert-intermediate-size") or "")
    return sheet.has("--moe-shared-expert-overlap") and is_whole(width) and int(width) > 0


def _is_one(value: object) -> bool:
    """Whether a word says 1: experts as large as an even share, which is what static shapes are priced as."""
    return re.fullmatch(r"1(?:\.0*)?", str(value)) is not None


def _recompute(sheet: Sheet) -> None:
    kind, method = sheet.take("--recompute-granularity"), sheet.take("--recompute-method")
    layers, modules = (
        sheet.whole("--recompute-num-layers", "--activations-checkpoint-num-layers"),
        str(sheet.take("--recompute-modules") or "").split(),
    )
    if sheet.has("--recompute-activations") and kind is None:
        kind = "selective"
    older = sheet.take("--activations-checkpoint-method")
    if (sheet.has("--checkpoint-activations") or older is not None) and kind is None:
        kind, method = "full", method or older or "uniform"
    if kind is None:
        return
    text = str(kind)
    if text == "selective" and modules and modules != ["core_attn"]:
        text += f":{'+'.join(OURS.get(module, module) for module in modules)}"
    elif text == "full" and method == "block" and layers is not None:
        vpp = sheet.options.get("vpp", "1")
        text = f"full:{layers * int(vpp)}" if is_whole(vpp) and layers else "none"
    elif text == "full" and layers is not None and layers > 1:
        sheet.notes.append(f"recompute in groups of {layers} layers: priced layer by layer")
    sheet.say("recompute", text, "--recompute-modules", "--recompute-granularity", "--recompute-activations")


def _precision(sheet: Sheet) -> None:
    half, brain = sheet.has("--fp16"), sheet.has("--bf16")
    recipe = str(sheet.take("--fp8-recipe") or "delayed")
    eight = sheet.take("--fp8-format") or sheet.has("--fp8-hybrid", "--fp8-e4m3")
    four, _ = sheet.take("--fp4-format"), sheet.take("--fp4-recipe")
    if four:
        sheet.say("precision", "nvfp4", "--fp4-format")
    elif eight:
        sheet.say("precision", RECIPES.get(recipe, recipe), "--fp8-recipe", "--fp8-format")
    else:
        sheet.say("precision", "fp16" if half else "bf16" if brain else "fp32", "--fp16", "--bf16")
    sheet.seen.add("--reuse-grad-buf-for-mxfp8-param-ag")
    gathered = sheet.has("--fp8-param-gather") and eight and recipe != "blockwise"
    if gathered or (sheet.has("--fp4-param-gather") and four):
        sheet.changes.append("low_bit_weights=alone")
    full = sheet.has("--accumulate-allreduce-grads-in-fp32")
    short = sheet.has("--grad-reduce-in-bf16")
    said = sheet.take("--main-grads-dtype", "--megatron-fsdp-main-grads-dtype")
    sheet.take("--megatron-fsdp-grad-comm-dtype", "--grad-reduce-in-bf16")
    gradient = "fp16" if half and not full else "bf16" if short else str(said or "fp32")
    if gradient != "fp32":
        sheet.say("gradient_dtype", gradient, "--main-grads-dtype", "--grad-reduce-in-bf16", "--fp16")
        sheet.instead["--fp16"] = "precision"


def _workload(sheet: Sheet, gpus: int | None) -> None:
    sheet.say("seq_len", sheet.whole("--seq-length", "--encoder-seq-length"), "--seq-length")
    micro = sheet.whole("--micro-batch-size", "--batch-size")
    sheet.say("micro_batch", micro, "--micro-batch-size")
    batch = sheet.whole("--global-batch-size")
    if batch is None and sheet.take("--step-batch-size-schedule") is not None:
        batch = last_batch(sheet)
    model = [sheet.options.get(name, "1") for name in ("tp", "pp", "cp")]
    unsaid = batch is None and not sheet.faulty("--global-batch-size")
    if unsaid and gpus and micro and all(is_whole(degree) and int(degree) for degree in model):
        tp, pp, cp = map(int, model)
        batch = micro * max(1, gpus // (tp * pp * cp))
        sheet.notes.append(f"no --global-batch-size: one micro-batch on every replica, {batch} sequences")
    if sheet.take("--rampup-batch-size") is not None:
        sheet.notes.append("--rampup-batch-size: priced at the full batch, after the ramp")
    sheet.say("global_batch", batch, "--global-batch-size", "--step-batch-size-schedule")
    optimizer = str(sheet.take("--optimizer") or "adam").removeprefix(LAYER_WISE)
    sheet.say("optimizer", NAMES.get(optimizer, optimizer), "--optimizer")
    first, second = sheet.take("--exp-avg-dtype"), sheet.take("--exp-avg-sq-dtype")
    if first not in (None, "fp32") or second not in (None, "fp32"):
        sheet.say("state_dtype", first or "fp32", "--exp-avg-dtype")
    if first != second:
        sheet.notes.append("moments of two dtypes: both priced as the first")
    master = sheet.take("--main-params-dtype")
    if master not in (None, "fp32"):
        sheet.say("master_dtype", master, "--main-params-dtype")
    offloaded(sheet)
    if sheet.has(PRECISION_AWARE) and not {"state_dtype", "master_dtype", "offload"} & set(sheet.options):
        sheet.changes.append("precision_aware=on")


def read_command(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what the arguments say, with the model that they describe."""
    found, record = from_script(training, str(path))
    if record is not None and vocab is not None:
        record["vocab"] = vocab
    return with_record(found, record, path, "--vocab-size")
