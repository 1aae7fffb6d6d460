"""What Megatron-LM checks of graphs, evaluation, data, dispatchers and exact repetition.

Read in Megatron-LM d98e8a64: megatron/training/arguments.py, ``validate_args``; determinism.py;
megatron/core/transformer/transformer_config.py, ``__post_init__``; core/optimizer/optimizer_config.py.
"""

from __future__ import annotations

from typing import Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.sums import is_set, number_of
from planner.runtimes.megatron_lm.reading.megatron_hybrid import hybrid_sums
from planner.units import is_whole

Broken = tuple[str, bool, str, str]
"""Key of a fault, whether it is there, what was found, and what is accepted."""

GRAPHED: Final = (
    *("attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"),
    *("full", "full_iteration", "full_iteration_inference"),
)
"""Scopes of CUDA graphs; the last three are of releases before modules and implementations were apart."""

FP32: Final = ("--main-grads-dtype", "--main-params-dtype", "--exp-avg-dtype", "--exp-avg-sq-dtype")
EXACT: Final = ("--cross-entropy-loss-fusion", "--tp-comm-overlap")
"""What ``--deterministic-mode`` excludes (``ARG_VALUES_REQUIRED_FOR_DETERMINISM``)."""


DROPPED: Final = {"--attention-dropout": "0.1", "--hidden-dropout": "0.1"}
"""What a command drops where it does not say (Megatron-LM d98e8a64, megatron/training/arguments.py)."""


def run_sums(sheet: Sheet) -> None:
    """Note as a fault what Megatron-LM asserts and the script breaks; one fault for each key."""
    seen: set[str] = set()
    for table in (
        _exact,
        _graphs,
        _graphed,
        _batches,
        _others,
        hybrid_sums,
        _data,
        _numbers,
        _optimizer,
        _dispatch,
        _positions,
        _vocabulary,
        _activation,
        _by_length,
    ):
        for key, broken, found, expected in table(sheet):
            if broken and key not in seen:
                seen.add(key)
                sheet.fault(key, found, expected)


OTHER_MODELS: Final = {
    "--heterogeneous-layers-config-path": "layers that the script's own arguments say",
}
"""Arguments that make another model of the same sizes."""


def _others(sheet: Sheet) -> list[Broken]:
    """Name what makes another model than the sizes say; a model on the command line stands for it."""
    given = [key for key in OTHER_MODELS if is_set(sheet, key)]
    sheet.instead.update(dict.fromkeys(given, "model"))
    return [(key, True, str(sheet.values[key]), OTHER_MODELS[key]) for key in given]


def _has(sheet: Sheet, key: str) -> bool:
    return sheet.values.get(key) is not None


def _words(sheet: Sheet, *keys: str) -> list[str]:
    """Return the words of the first of these arguments that is given."""
    given = next((str(sheet.values[key]) for key in keys if _has(sheet, key)), "")
    return given.replace(",", " ").split()


def _exact(sheet: Sheet) -> list[Broken]:
    """Exact repetition leaves out what sums in another order."""
    exact = is_set(sheet, "--deterministic-mode")
    return [
        ("--deterministic-mode", exact and is_set(sheet, other), f"with {other}", "one of them")
        for other in EXACT
    ]


def _graphs(sheet: Sheet) -> list[Broken]:
    """Check who makes graphs of kernels."""
    kind, key = str(sheet.values.get("--cuda-graph-impl") or "none"), "--cuda-graph-impl"
    old = [name for name in ("--enable-cuda-graph", "--external-cuda-graph") if is_set(sheet, name)]
    modules = _words(sheet, "--cuda-graph-modules", "--cuda-graph-scope")
    kinds = ("none", "local", "transformer_engine", "full_iteration")
    layered = kind in ("local", "transformer_engine")
    full = sheet.values.get("--recompute-granularity") == "full"
    checked = not is_set(sheet, "--no-check-for-nan-in-loss-and-grad")
    return [
        (key, kind not in kinds, repr(kind), f"one of {', '.join(kinds)}"),
        (key, bool(old) and kind != "none", f"with {' '.join(old)}", f"{key} alone"),
        ("--enable-cuda-graph", len(old) > 1, "with --external-cuda-graph", "one of them"),
        (
            key,
            kind == "full_iteration" and checked,
            "full_iteration with checks of the loss for NaN",
            "--no-check-for-nan-in-loss-and-grad with it",
        ),
        (key, layered and full, f"{kind} with full recompute", "full_iteration, or selective recompute"),
        (
            "--cuda-graph-modules",
            kind == "full_iteration" and bool(modules),
            "with --cuda-graph-impl full_iteration",
            "no modules: all of a step is one graph",
        ),
    ]


def _graphed(sheet: Sheet) -> list[Broken]:
    """Check what is in graphs."""
    key = "--cuda-graph-modules" if _has(sheet, "--cuda-graph-modules") else "--cuda-graph-scope"
    modules = _words(sheet, key)
    foreign = [module for module in modules if module not in GRAPHED]
    experts = [module for module in modules if module.startswith("moe")]
    dense = _has(sheet, "--num-layers") and not number_of(sheet, "--num-experts")
    padded = is_set(sheet, "--moe-pad-expert-input-to-capacity")
    both = _has(sheet, "--cuda-graph-modules") and _has(sheet, "--cuda-graph-scope")
    return [
        (key, both, "with --cuda-graph-scope", "--cuda-graph-modules alone"),
        (key, bool(foreign), " ".join(foreign), f"modules of {', '.join(GRAPHED[:6])}"),
        (key, {"moe", "moe_router"} <= {*modules}, "moe and moe_router", "one of them"),
        (key, experts == ["moe_preprocess"], "moe_preprocess alone", "moe_router with it"),
        (key, bool(experts) and dense, f"{' '.join(experts)} without experts", "modules that the model has"),
        (key, "moe" in experts and not padded, "moe with dropless experts", "moe_router moe_preprocess"),
    ]


def _replicas(sheet: Sheet) -> int | None:
    """Return the data-parallel ranks of the world that the script starts, where it is known."""
    sizes = [sheet.options.get(name, "1") for name in ("gpus", "tp", "pp", "cp")]
    if "gpus" not in sheet.options or not all(is_whole(size) for size in sizes):
        return None
    gpus, *model = map(int, sizes)
    ranks = model[0] * model[1] * model[2]
    return gpus // ranks if ranks and gpus % ranks == 0 else None


def _batches(sheet: Sheet) -> list[Broken]:
    """Batches of evaluation, and of a ramp, are whole too."""
    batch, micro = number_of(sheet, "--global-batch-size"), number_of(sheet, "--micro-batch-size")
    whole, part = number_of(sheet, "--eval-global-batch-size"), number_of(sheet, "--eval-micro-batch-size")
    replicas, key = _replicas(sheet), "--eval-global-batch-size"
    key = key if whole is not None else "--eval-micro-batch-size"
    given = whole is not None or part is not None
    each = (part if part is not None else micro or 0) * (replicas or 0)
    ramp = [int(word) for word in _words(sheet, "--rampup-batch-size") if is_whole(word)]
    stepped = (
        len(ramp) == 3
        and batch is not None
        and not (ramp[1] > 0 and ramp[0] <= batch and (batch - ramp[0]) % ramp[1] == 0)
    )
    return [
        (
            key,
            given and replicas is not None and (each < 1 or (whole or batch or 0) % max(each, 1) != 0),
            str(whole if whole is not None else part),
            f"an evaluation batch that is a multiple of its micro-batch x {replicas} replicas",
        ),
        (
            "--rampup-batch-size",
            stepped,
            " ".join(map(str, ramp)),
            f"a start and steps that reach --global-batch-size ({batch})",
        ),
    ]


def _data(sheet: Sheet) -> list[Broken]:
    """A run has one source of data."""
    split = ("--train-data-path", "--valid-data-path", "--test-data-path")
    given = [key for key in ("--mock-data", "--data-path", *split) if is_set(sheet, key)]
    kinds = {key if key not in split else "--train-data-path" for key in given}
    listed = is_set(sheet, "--data-path") and is_set(sheet, "--data-args-path")
    return [
        (given[0] if given else "", len(kinds) > 1, f"with {' and '.join(given[1:])}", "one source of data"),
        ("--data-args-path", listed, "with --data-path", "one of them"),
    ]


def _numbers(sheet: Sheet) -> list[Broken]:
    """Numbers that are positive, and shares between 0 and 1."""
    positive = (
        *("--kv-channels", "--make-vocab-size-divisible-by", "--moe-shared-expert-intermediate-size"),
        *("--moe-latent-size", "--num-distributed-optimizer-instances", "--num-dataset-builder-threads"),
        "--moe-router-topk",
    )
    grouped = ("--num-query-groups",) if _has(sheet, "--group-query-attention") else ()
    shares = ("--hidden-dropout", "--attention-dropout", "--optimizer-offload-fraction", "--rotary-percent")
    table: list[Broken] = []
    for key in (*positive, *grouped):
        number = number_of(sheet, key)
        table.append((key, number is not None and number < 1, str(number), "1 or more"))
    turned = number_of(sheet, "--qk-pos-emb-head-dim")
    odd = turned is not None and turned % 2 == 1
    table.append(("--qk-pos-emb-head-dim", odd, str(turned), "an even number, whose halves are turned"))
    for key in shares:
        try:
            share = float(str(sheet.values.get(key)))
        except ValueError:
            continue
        table.append((key, not 0.0 <= share <= 1.0, f"{share:g}", "a share between 0 and 1"))
    return table


def _vocabulary(sheet: Sheet) -> list[Broken]:
    """Check that tensor-parallel ranks divide a table whose padded size is said."""
    key, tp = "--padded-vocab-size", max(1, number_of(sheet, "--tensor-model-parallel-size") or 1)
    size = number_of(sheet, key)
    broken = size is not None and (size < 1 or size % tp != 0)
    tokens = number_of(sheet, "--vocab-size")
    short = None not in (size, tokens) and (size or 0) < (tokens or 0)
    return [
        (key, short, f"{size}, less than --vocab-size {tokens}", "a row for each token"),
        (key, broken, str(size), f"a multiple of --tensor-model-parallel-size ({tp}), 1 or more"),
    ]


def _optimizer(sheet: Sheet) -> list[Broken]:
    """Check the states' number formats, replicas of the optimizer, and what its checkpoints need."""
    aware = is_set(sheet, "--use-precision-aware-optimizer")
    fully = is_set(sheet, "--use-torch-fsdp2")
    name, low = str(sheet.values.get("--optimizer") or "adam"), "--fp8-param-gather"
    hosted = is_set(sheet, "--optimizer-cpu-offload") and is_set(sheet, low)
    recipe = str(sheet.values.get("--fp8-recipe") or "delayed")
    several = number_of(sheet, "--num-distributed-optimizer-instances") or 1
    replicas, cp = _replicas(sheet), number_of(sheet, "--context-parallel-size") or 1
    table: list[Broken] = [
        (
            key,
            str(sheet.values.get(key) or "fp32") != "fp32" and not aware,
            f"{sheet.values.get(key)} without --use-precision-aware-optimizer",
            "fp32, or that switch with it",
        )
        for key in FP32
    ]
    cut = replicas is not None and several > 0 and replicas * cp % several != 0
    key = "--num-distributed-optimizer-instances"
    return [
        *table,
        ("--use-precision-aware-optimizer", aware and name != "adam", f"with --optimizer {name}", "adam"),
        (
            "--ckpt-format",
            sheet.values.get("--ckpt-format") == "torch_dcp" and not fully,
            "torch_dcp",
            "torch_dist, or --use-torch-fsdp2",
        ),
        (low, hosted and recipe != "delayed", f"{recipe} with hosted states", "--fp8-recipe delayed"),
        (key, cut, str(several), f"a divisor of the replicas ({(replicas or 0) * cp})"),
        (
            key,
            several > 1 and not is_set(sheet, "--use-distributed-optimizer"),
            "alone",
            "--use-distributed-optimizer with it",
        ),
    ]


def _by_length(sheet: Sheet) -> list[Broken]:
    """Check what context parallelism by length excludes (``args.hybrid_context_parallel``)."""
    key = "--hybrid-context-parallel"
    on, kind = is_set(sheet, key), str(sheet.values.get("--dataloader-type") or "single")
    fully, token = is_set(sheet, "--use-megatron-fsdp"), is_set(sheet, "--calculate-per-token-loss")
    stages = sheet.options.get("pp", "1")
    return [
        (key, on and stages != "1", f"with {stages} pipeline stages", "--pipeline-model-parallel-size 1"),
        (key, on and is_set(sheet, "--enable-cuda-graph"), "with --enable-cuda-graph", "one of them"),
        (key, on and fully, "with --use-megatron-fsdp", "one of them"),
        (key, on and kind != "single", f"with --dataloader-type {kind}", "--dataloader-type single"),
        (key, on and not token, "without --calculate-per-token-loss", "both"),
    ]


def _dispatch(sheet: Sheet) -> list[Broken]:
    """Check what dispatchers, capacities and latent attention exclude."""
    dispatcher = str(sheet.values.get("--moe-token-dispatcher-type") or "allgather")
    backend = str(sheet.values.get("--moe-flex-dispatcher-backend") or "deepep")
    known = ("deepep", "hybridep", "ncclep")
    rank_capacity, shared = "--moe-expert-rank-capacity-factor", "--moe-shared-expert-overlap"
    fused = is_set(sheet, "--use-transformer-engine-op-fuser") or is_set(sheet, "--moe-use-grouped-tensor")
    full = sheet.values.get("--recompute-granularity") == "full"
    inner = _has(sheet, "--moe-shared-expert-intermediate-size")
    spread = inner and is_set(sheet, shared) and dispatcher not in ("alltoall", "flex", "alltoall_seq")
    return [
        ("--moe-flex-dispatcher-backend", backend not in known, repr(backend), f"one of {', '.join(known)}"),
        (
            "--moe-flex-dispatcher-backend",
            backend == "ncclep" and dispatcher != "flex",
            f"ncclep with {dispatcher}",
            "--moe-token-dispatcher-type flex",
        ),
        (
            rank_capacity,
            _has(sheet, rank_capacity) and backend not in ("hybridep", "ncclep"),
            f"with {backend}",
            "--moe-flex-dispatcher-backend hybridep",
        ),
        (
            rank_capacity,
            _has(sheet, rank_capacity) and backend == "hybridep" and not fused,
            "without the operator fuser",
            "--use-transformer-engine-op-fuser with it",
        ),
        (
            "--moe-paged-stash",
            is_set(sheet, "--moe-paged-stash") and not _has(sheet, rank_capacity),
            "alone",
            f"{rank_capacity} with it",
        ),
        (shared, spread, f"with {dispatcher}", "--moe-token-dispatcher-type alltoall"),
        (
            "--moe-layer-recompute",
            is_set(sheet, "--moe-layer-recompute") and full,
            "with full recompute",
            "selective recompute",
        ),
        (
            "--rotary-interleaved",
            is_set(sheet, "--rotary-interleaved") and is_set(sheet, "--multi-latent-attention"),
            "with --multi-latent-attention",
            "one of them",
        ),
    ]


def _activation(sheet: Sheet) -> list[Broken]:
    """A fused bias has no squared ReLU, and no shifted SwiGLU."""
    biased = not _has(sheet, "--disable-bias-linear") and not _has(sheet, "--no-bias-gelu-fusion")
    expected = "--disable-bias-linear or --no-bias-gelu-fusion"
    shifted = str(sheet.values.get("--glu-linear-offset") or "0").strip("0.") and _has(sheet, "--swiglu")
    fused = not _has(sheet, "--no-bias-swiglu-fusion")
    return [
        ("--squared-relu", _has(sheet, "--squared-relu") and biased, "with a fused GELU", expected),
        ("--glu-linear-offset", bool(shifted) and fused, "with a fused SwiGLU", "--quick-geglu"),
    ]


def _positions(sheet: Sheet) -> list[Broken]:
    """Check positions that need more arguments, and layers without them."""
    kind, layers = sheet.values.get("--position-embedding-type"), number_of(sheet, "--num-layers")
    every = number_of(sheet, "--no-rope-freq")
    sections = _has(sheet, "--mrope-section")
    return [
        (
            "--position-embedding-type",
            kind == "mrope" and not sections,
            "mrope alone",
            "--mrope-section with it",
        ),
        (
            "--position-embedding-type",
            kind == "yarn" and _has(sheet, "--multi-latent-attention"),
            "yarn with latent attention",
            "rope: latent attention takes yarn by --rope-type",
        ),
        (
            "--no-rope-freq",
            bool(layers and every and (every < 0 or layers % every)),
            str(every),
            f"a divisor of --num-layers ({layers})",
        ),
    ]
