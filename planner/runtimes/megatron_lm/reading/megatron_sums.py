"""What Megatron-LM checks of its own arguments before it starts: a script that breaks one is a fault.

Read in Megatron-LM d98e8a64: megatron/training/arguments.py, ``validate_args`` and its parsers, and
megatron/core/transformer/transformer_config.py, ``__post_init__``. What depends on the degrees alone is a
rule of the runtime (``planner/runtimes/megatron_lm``), and not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet, unset_hint
from planner.runtimes.imports.sums import is_set, number_of
from planner.runtimes.megatron_lm.reading.megatron_layout_sums import layer_sums
from planner.runtimes.megatron_lm.reading.megatron_mixers import DELTA, SPARSE
from planner.runtimes.megatron_lm.reading.megatron_run_sums import run_sums

CHOICES: Final = {
    "--attention-backend": ("flash", "fused", "unfused", "local", "auto"),
    "--ckpt-format": ("torch", "torch_dist", "torch_dcp", "fsdp_dtensor"),
    "--cross-entropy-fusion-impl": ("native", "te"),
    "--data-parallel-sharding-strategy": ("no_shard", "optim", "optim_grads", "optim_grads_params"),
    "--dataloader-type": ("single", "cyclic", "external"),
    "--exp-avg-dtype": ("fp32", "fp16", "bf16", "fp8"),
    "--exp-avg-sq-dtype": ("fp32", "fp16", "bf16", "fp8"),
    "--fp4-format": ("e2m1",),
    "--fp4-recipe": ("nvfp4", "custom"),
    "--fp8-format": ("e4m3", "hybrid"),
    "--fp8-recipe": ("tensorwise", "delayed", "mxfp8", "blockwise", "custom"),
    "--lr-decay-style": ("constant", "linear", "cosine", "inverse-square-root", "WSD"),
    "--main-grads-dtype": ("fp32", "bf16"),
    "--main-params-dtype": ("fp32", "fp16"),
    "--megatron-fsdp-version": ("1", "2"),
    "--moe-router-dtype": ("fp32", "fp64"),
    "--moe-router-score-function": ("softmax", "sigmoid", "sqrtsoftplus"),
    "--moe-token-dispatcher-type": ("allgather", "alltoall", "flex", "alltoall_seq"),
    "--normalization": ("LayerNorm", "RMSNorm"),
    "--position-embedding-type": ("learned_absolute", "rope", "yarn", "mrope", "relative", "none"),
    "--recompute-granularity": ("full", "selective"),
    "--recompute-method": ("uniform", "block"),
    "--softmax-type": ("vanilla", "off-by-one", "learnable"),
    "--transformer-impl": ("local", "transformer_engine", "inference_optimized"),
}
"""Values that the parser takes; one that older releases took beside them is listed too."""

BALANCES: Final = (
    *("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "quantile_balancing", "none"),
)
RECOMPUTED: Final = (
    *("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"),
    *("gdn_norm_out", "gdp_in_proj", "gdp_qkv", "mhc"),
)
GONE: Final = {
    "--warmup": "--lr-warmup-fraction",
    "--model-parallel-size": "--tensor-model-parallel-size",
}
"""Arguments that no release takes any longer, and what says the same."""

OLD: Final = {"--moe-token-dispatcher-type": "alltoall_seq"}
"""Values that the newest parser takes no longer."""

RENAMED: Final = {
    "--batch-size": "--micro-batch-size",
    "--checkpoint-activations": "--recompute-activations",
    "--activations-checkpoint-method": "--recompute-method",
    "--activations-checkpoint-num-layers": "--recompute-num-layers",
    "--no-position-embedding": "--position-embedding-type",
}
"""Arguments of old releases that are read as they were meant."""


def megatron_sums(sheet: Sheet, record: Mapping[str, Any] | None) -> None:
    """Note as a fault what Megatron-LM asserts and the script breaks."""
    _values(sheet)
    _loop(sheet)
    _recompute(sheet)
    _sharding(sheet)
    _formats(sheet)
    _attention(sheet)
    _sequence(sheet)
    _experts(sheet)
    run_sums(sheet)
    layer_sums(sheet, len(record["layers"]) if record is not None else None)


def overridden_values(sheet: Sheet, said: Iterable[tuple[str, str]]) -> None:
    """Check values that a later argument replaces, as the parser does."""
    for key, value in said:
        if key in CHOICES and value not in CHOICES[key]:
            sheet.fault(key, repr(value[:60]), f"one of {', '.join(CHOICES[key])}{unset_hint(value)}")


def connection_sums(sheet: Sheet, connections: str | None) -> None:
    """Check the connections that FSDP excludes and that tensor and context parallelism need."""
    fully = has(sheet, "--use-megatron-fsdp") or has(sheet, "--use-torch-fsdp2")
    if fully and connections == "1":
        key = "--use-megatron-fsdp" if has(sheet, "--use-megatron-fsdp") else "--use-torch-fsdp2"
        sheet.fault(key, "with CUDA_DEVICE_MAX_CONNECTIONS=1", "more connections, or the variable unset")
    cut = any((number_of(sheet, f"--{name}-parallel-size") or 1) > 1 for name in ("tensor-model", "context"))
    overlapped = has(sheet, "--overlap-moe-expert-parallel-comm")
    if cut and connections != "1" and not (fully or overlapped):
        sheet.notes.append(
            "CUDA_DEVICE_MAX_CONNECTIONS is not set to 1: before Blackwell, Megatron-LM starts with "
            "tensor or context parallelism only where it is"
        )


def has(sheet: Sheet, key: str) -> bool:
    """Return whether an argument is given, whatever its value."""
    return sheet.values.get(key) is not None


def excluded(sheet: Sheet, key: str, other: str) -> None:
    """Note a fault where two arguments are given that exclude each other."""
    if has(sheet, key) and has(sheet, other):
        sheet.fault(key, f"with {other}", "one of them")


def needed(sheet: Sheet, key: str, *others: str) -> None:
    """Note a fault where an argument is given without any of those that it needs."""
    if has(sheet, key) and not any(has(sheet, other) for other in others):
        sheet.fault(key, "alone", f"{' or '.join(others)} with it")


def _values(sheet: Sheet) -> None:
    """Check values against those of the parser, and arguments that must be there."""
    for key, known in CHOICES.items():
        value = sheet.values.get(key)
        if value is not None and str(value) not in known:
            sheet.fault(key, repr(str(value)[:60]), f"one of {', '.join(known)}")
    sheet.notes += [
        f"{key} {value}: of old releases; the newest refuses it"
        for key, value in OLD.items()
        if value == sheet.values.get(key)
    ]
    for key, instead in GONE.items():
        if has(sheet, key):
            sheet.fault(key, "an argument that is gone", instead)
    sheet.notes += [f"{old}: of old releases; now {new}" for old, new in RENAMED.items() if has(sheet, old)]
    if has(sheet, "--num-layers") and has(sheet, "--hidden-size"):
        for key in ("--num-attention-heads", "--max-position-embeddings"):
            if not has(sheet, key):
                sheet.fault(key, "nothing", "a whole number: it has no default")
    if not (has(sheet, "--micro-batch-size") or has(sheet, "--batch-size")):
        sheet.fault("--micro-batch-size", "nothing", "a whole number: it has no default")
    if not (has(sheet, "--seq-length") or has(sheet, "--encoder-seq-length")):
        sheet.fault("--seq-length", "nothing", "a whole number: it has no default")
    excluded(sheet, "--encoder-num-layers", "--num-layers")


def _loop(sheet: Sheet) -> None:
    """Check steps or samples, the learning rate and the interval of checkpoints."""
    excluded(sheet, "--step-batch-size-schedule", "--global-batch-size")
    if number_of(sheet, "--train-iters"):
        for key in ("--train-samples", "--lr-decay-samples"):
            excluded(sheet, key, "--train-iters")
        if number_of(sheet, "--lr-warmup-samples"):
            sheet.fault("--lr-warmup-samples", "with --train-iters", "--lr-warmup-iters")
    elif number_of(sheet, "--train-samples"):
        excluded(sheet, "--lr-decay-iters", "--train-samples")
        if number_of(sheet, "--lr-warmup-iters"):
            sheet.fault("--lr-warmup-iters", "with --train-samples", "--lr-warmup-samples")
    for key in ("--lr-warmup-iters", "--lr-warmup-samples"):
        if has(sheet, "--lr-warmup-fraction") and number_of(sheet, key):
            sheet.fault("--lr-warmup-fraction", f"with {key}", "one of them")
    rate, least = _real(sheet, "--lr"), _real(sheet, "--min-lr")
    if rate is not None and least is not None and least > rate:
        sheet.fault("--min-lr", f"{least:g}", f"at most --lr ({rate:g})")
    interval = number_of(sheet, "--save-interval")
    open_interval = interval is None and has(sheet, "--save-interval")
    if has(sheet, "--save") and (interval or 0) < 1 and not open_interval:
        sheet.fault("--save", "without a --save-interval of 1 or more", "--save-interval 1000")


def _real(sheet: Sheet, key: str) -> float | None:
    try:
        return float(str(sheet.values.get(key)))
    except ValueError:
        return None


def _recompute(sheet: Sheet) -> None:
    """Check that full recompute says how, that selective does not, and what modules need."""
    kind, key = sheet.values.get("--recompute-granularity"), "--recompute-granularity"
    method, layers = sheet.values.get("--recompute-method"), sheet.values.get("--recompute-num-layers")
    if kind == "full":
        if method not in CHOICES["--recompute-method"]:
            sheet.fault(key, "full without a method", "--recompute-method uniform or block")
        elif layers is None:
            sheet.instead[key] = "recompute"
            sheet.fault(key, "full without a number", "--recompute-num-layers N")
        elif method == "uniform" and number_of(sheet, "--recompute-num-layers") == 0:
            sheet.fault(key, "groups of no layers", "--recompute-num-layers of 1 or more")
    selective = kind == "selective" or has(sheet, "--recompute-activations")
    if selective and (method is not None or layers is not None):
        given = "--recompute-method" if method is not None else "--recompute-num-layers"
        sheet.fault(key, f"selective with {given}", f"selective alone, or full with {given}")
    if selective:
        _modules(sheet, str(sheet.values.get("--recompute-modules") or "").split())
    if has(sheet, "--distribute-saved-activations"):
        if kind != "full" or (number_of(sheet, "--tensor-model-parallel-size") or 1) == 1:
            sheet.fault("--distribute-saved-activations", "alone", "full recompute and tensor parallelism")
        excluded(sheet, "--distribute-saved-activations", "--sequence-parallel")


def _modules(sheet: Sheet, modules: list[str]) -> None:
    key = "--recompute-modules"
    foreign = [module for module in modules if module not in RECOMPUTED]
    if foreign:
        sheet.fault(key, " ".join(foreign), f"modules of {', '.join(RECOMPUTED)}")
    if "moe_act" in modules and has(sheet, "--num-experts") and not has(sheet, "--moe-grouped-gemm"):
        sheet.fault(key, "moe_act", "--moe-grouped-gemm with it")
    if "shared_experts" in modules and has(sheet, "--moe-shared-expert-overlap"):
        sheet.fault(key, "shared_experts", "no --moe-shared-expert-overlap")


def _sharding(sheet: Sheet) -> None:
    """Check the distributed optimizer, both kinds of FSDP, and the checkpoints that they need."""
    fully = has(sheet, "--use-megatron-fsdp") or has(sheet, "--use-custom-fsdp")
    optimizer = str(sheet.values.get("--optimizer") or "adam")
    shared = has(sheet, "--use-distributed-optimizer")
    needed(sheet, "--overlap-param-gather", "--overlap-grad-reduce")
    gathers = shared or fully or optimizer == "dist_muon"
    if has(sheet, "--overlap-param-gather") and not gathers:
        sheet.fault("--overlap-param-gather", "alone", "--use-distributed-optimizer with it")
    if has(sheet, "--overlap-param-gather-with-optimizer-step"):
        key = "--overlap-param-gather-with-optimizer-step"
        needed(sheet, key, "--overlap-param-gather")
        needed(
            sheet,
            key,
            "--num-layers-per-virtual-pipeline-stage",
            "--num-virtual-stages-per-pipeline-rank",
            "--pipeline-model-parallel-layout",
        )
    form = str(sheet.values.get("--ckpt-format") or "torch_dist")
    if fully and form != "fsdp_dtensor":
        sheet.fault("--use-megatron-fsdp", f"with --ckpt-format {form}", "--ckpt-format fsdp_dtensor")
    if form == "fsdp_dtensor" and not fully:
        sheet.fault("--ckpt-format", form, "torch_dist, or --use-megatron-fsdp")
    if fully and optimizer not in ("adam", "sgd"):
        sheet.fault("--use-megatron-fsdp", f"with --optimizer {optimizer}", "adam or sgd")
    if fully and str(sheet.values.get("--megatron-fsdp-version")) == "2":
        excluded(sheet, "--use-distributed-optimizer", "--megatron-fsdp-version")
    if has(sheet, "--use-torch-fsdp2"):
        _torch_fsdp(sheet, form, optimizer)


def _torch_fsdp(sheet: Sheet, form: str, optimizer: str) -> None:
    key = "--use-torch-fsdp2"
    broken = {
        "pipeline parallelism": (number_of(sheet, "--pipeline-model-parallel-size") or 1) > 1,
        "expert parallelism": (number_of(sheet, "--expert-model-parallel-size") or 1) > 1,
        "--use-distributed-optimizer": has(sheet, "--use-distributed-optimizer"),
        "fused gradient accumulation": not has(sheet, "--no-gradient-accumulation-fusion"),
        "tied embeddings": not has(sheet, "--untie-embeddings-and-output-weights"),
        "--fp16": has(sheet, "--fp16"),
        f"--ckpt-format {form}": form not in ("torch_dist", "torch_dcp"),
        f"--optimizer {optimizer}": optimizer not in ("adam", "sgd"),
    }
    found = [name for name, there in broken.items() if there]
    if found:
        sheet.fault(key, f"with {', '.join(found)}", "none of these")


def _formats(sheet: Sheet) -> None:
    """Check number formats, and where the optimizer's states live."""
    excluded(sheet, "--fp16", "--bf16")
    if sheet.faulty("--fp16"):
        sheet.problems.pop("--fp16")
        sheet.fault("--fp16", "--fp16 and --bf16 both given", "one of them")
    low = has(sheet, "--fp8-format") or has(sheet, "--fp8-hybrid") or has(sheet, "--fp8-e4m3")
    if low and has(sheet, "--fp4-format"):
        sheet.fault("--fp4-format", "with --fp8-format", "one of them")
    if has(sheet, "--fp8-param-gather"):
        if not low:
            sheet.fault("--fp8-param-gather", "alone", "--fp8-format with it")
        shares = ("--use-distributed-optimizer", "--use-torch-fsdp2", "--use-megatron-fsdp")
        needed(sheet, "--fp8-param-gather", *shares)
    needed(sheet, "--fp4-param-gather", "--fp4-format")
    fp32 = str(sheet.values.get("--main-grads-dtype") or "fp32") == "fp32"
    if has(sheet, "--bf16") and has(sheet, "--accumulate-allreduce-grads-in-fp32") and not fp32:
        sheet.fault("--main-grads-dtype", "bf16 with --accumulate-allreduce-grads-in-fp32", "fp32")
    needed(sheet, "--optimizer-cpu-offload", "--use-precision-aware-optimizer")


def _attention(sheet: Sheet) -> None:
    """Check attention and the feed-forward's activation."""
    excluded(sheet, "--group-query-attention", "--multi-latent-attention")
    heads, hidden = number_of(sheet, "--num-attention-heads"), number_of(sheet, "--hidden-size")
    if heads and hidden and hidden % heads and not has(sheet, "--kv-channels"):
        sheet.fault("--num-attention-heads", str(heads), f"a divisor of --hidden-size ({hidden})")
    for key, other in (
        ("squared-relu", "swiglu"),
        ("quick-geglu", "swiglu"),
        ("squared-relu", "quick-geglu"),
    ):
        excluded(sheet, f"--{key}", f"--{other}")
    if sheet.values.get("--attention-backend") == "local" and sheet.values.get("--spec") != "local":
        sheet.fault("--attention-backend", "local", "--spec local with it")
    window = str(sheet.values.get("--window-size") or "")
    if " " in window.strip() and "," not in window:
        sheet.fault("--window-size", repr(window), "two numbers in one word, such as 128,0")
    variant = sheet.values.get("--experimental-attention-variant")
    latent = "--multi-latent-attention" in sheet.values
    if variant is not None and variant not in (*DELTA, *([SPARSE] if latent else [])):
        expected = f"softmax attention or {DELTA[0]}: other linear and sparse attention have no price"
        sheet.fault("--experimental-attention-variant", str(variant), expected)
        sheet.instead["--experimental-attention-variant"] = "model"


def _sequence(sheet: Sheet) -> None:
    """Check the sequence, its positions, and what is cut along it."""
    length, most = number_of(sheet, "--seq-length"), number_of(sheet, "--max-position-embeddings")
    if length and most and length > most:
        sheet.fault("--seq-length", str(length), f"at most --max-position-embeddings ({most})")
    kind = str(sheet.values.get("--position-embedding-type") or "learned_absolute")
    kind = "rope" if has(sheet, "--use-rotary-position-embeddings") else kind
    named = not has(sheet, "--num-layers") and not has(sheet, "--position-embedding-type")
    if number_of(sheet, "--mtp-num-layers") and kind not in ("rope", "none") and not named:
        sheet.fault("--mtp-num-layers", f"with {kind} positions", "--position-embedding-type rope or none")
    sizes, cp = sheet.values.get("--hierarchical-context-parallel-sizes"), "--context-parallel-size"
    if sizes is not None and re.fullmatch(r"(\d{1,9}\s*){1,9}", str(sizes)):
        ranks = number_of(sheet, cp) or 1
        if prod(int(size) for size in str(sizes).split()) != ranks:
            expected = f"sizes whose product is {cp} ({ranks})"
            sheet.fault("--hierarchical-context-parallel-sizes", str(sizes), expected)
        if len(str(sizes).split()) != 2:
            expected = "two sizes, of ranks that share heads and of groups in a ring: others have no price"
            sheet.fault("--hierarchical-context-parallel-sizes", str(sizes), expected)
    if "a2a+p2p" in str(sheet.values.get("--cp-comm-type") or "").split():
        needed(sheet, "--cp-comm-type", "--hierarchical-context-parallel-sizes")
    needed(sheet, "--tp-comm-overlap", "--sequence-parallel")


def _experts(sheet: Sheet) -> None:
    """Check experts, their router and their dispatcher."""
    count = number_of(sheet, "--num-experts")
    if count is not None and count < 0:
        sheet.fault("--num-experts", str(count), "0 or more")
    biased = not has(sheet, "--disable-bias-linear")
    if count == 1 and biased and (sheet.options.get("etp") or sheet.options.get("tp", "1")) != "1":
        sheet.fault("--num-experts", "1 with biases over tensor ranks", "no --num-experts")
    if not count and has(sheet, "--moe-ffn-hidden-size"):
        sheet.fault("--moe-ffn-hidden-size", "without --num-experts", "--num-experts N")
    kinds = str(sheet.values.get("--moe-router-load-balancing-type") or "").split()
    foreign = [kind for kind in kinds if kind not in BALANCES]
    if foreign:
        expected = f"kinds of {', '.join(BALANCES)}"
        sheet.fault("--moe-router-load-balancing-type", " ".join(foreign), expected)
    score = str(sheet.values.get("--moe-router-score-function") or "softmax")
    if has(sheet, "--moe-router-enable-expert-bias") and score not in ("sigmoid", "sqrtsoftplus"):
        expected = "--moe-router-score-function sigmoid with it"
        sheet.fault("--moe-router-enable-expert-bias", f"with {score} scores", expected)
    top = number_of(sheet, "--moe-router-topk")
    plain = count and top == 1 and score == "softmax" and "sinkhorn" not in kinds
    if plain and not has(sheet, "--moe-router-pre-softmax"):
        sheet.fault("--moe-router-topk", "1", "--moe-router-pre-softmax with it")
    groups, chosen = (number_of(sheet, f"--moe-router-{name}") for name in ("num-groups", "group-topk"))
    if chosen and (not groups or not count or count % groups or chosen > groups):
        expected = f"groups (--moe-router-num-groups) that divide the experts ({count}), as many or more"
        sheet.fault("--moe-router-group-topk", str(chosen), expected)
    if has(sheet, "--moe-enable-deepep") and _dispatcher(sheet) != "flex":
        sheet.fault("--moe-enable-deepep", f"with {_dispatcher(sheet)}", "--moe-token-dispatcher-type flex")
    needed(sheet, "--moe-pad-expert-input-to-capacity", "--moe-expert-capacity-factor")
    needed(sheet, "--delay-wgrad-compute", "--overlap-moe-expert-parallel-comm")
    if has(sheet, "--overlap-moe-expert-parallel-comm"):
        _overlapped(sheet, count or 1)


def _dispatcher(sheet: Sheet) -> str:
    return str(sheet.values.get("--moe-token-dispatcher-type") or "allgather")


def _overlapped(sheet: Sheet, count: int) -> None:
    """Check what overlap of the experts' messages with other micro-batches needs."""
    ep, pp = (number_of(sheet, f"--{name}-model-parallel-size") or 1 for name in ("expert", "pipeline"))
    chunked = any(
        has(sheet, key)
        for key in (
            "--num-layers-per-virtual-pipeline-stage",
            "--num-virtual-stages-per-pipeline-rank",
            "--pipeline-model-parallel-layout",
        )
    )
    broken = {
        "no expert parallelism": ep == 1 or count == 1,
        "the dispatcher allgather": _dispatcher(sheet) not in ("alltoall", "flex"),
        "full recompute": sheet.values.get("--recompute-granularity") == "full",
        "recompute of moe": "moe" in str(sheet.values.get("--recompute-modules") or "").split(),
        "--moe-shared-expert-overlap": is_set(sheet, "--moe-shared-expert-overlap"),
        "one stage on a rank": pp > 1 and not chunked,
    }
    found = [name for name, there in broken.items() if there]
    if found:
        sheet.fault("--overlap-moe-expert-parallel-comm", f"with {', '.join(found)}", "none of these")
