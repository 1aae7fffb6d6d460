"""Flags of Megatron-LM's forks as Megatron-LM's own.

References
----------
.. [1] Megatron-DeepSpeed (https://github.com/deepspeedai/Megatron-DeepSpeed), megatron/arguments.py, and
   megatron/model/transformer.py, ``get_num_experts_per_layer``.
.. [2] BigCode's Megatron-LM (https://github.com/bigcode-project/Megatron-LM), megatron/arguments.py.
.. [3] bigscience's Megatron-DeepSpeed, megatron/model/transformer.py: ``CoreAttention`` adds ALiBi to scores.
.. [5] Megatron-LLM (https://github.com/epfLLM/Megatron-LLM), megatron/arguments.py.
.. [4] Megatron-LM, megatron/training/arguments.py: ``--use-rotary-position-embeddings``.
.. [6] bigscience's Megatron-DeepSpeed 8387ae17, megatron/model/transformer.py, ``ParallelMLP``, and
   megatron/arguments.py: ``--glu-activation``.
.. [7] MegaBlocks (https://github.com/databricks/megablocks), megablocks/layers/mpu.py and arguments.py, and
   its fork of Megatron-LM (https://github.com/stanford-futuredata/Megatron-LM), megatron/arguments.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_lm.reading.megatron_mindspeed import mindspeed
from planner.units import is_whole

DEEPSPEED: Final = {"--deepspeed", "--deepspeed_config", "--zero-stage"}
MPI: Final = {"--rank", "--world-size", "--local-rank"}
"""What forks are told by mpirun's wrapper (https://github.com/HYGON-AI/Megatron-LM-das)."""

UNDERSCORED: Final = "--num_layers"
NORMS: Final = {"rmsnorm": "RMSNorm", "RMSNorm": "RMSNorm"}
LOWERED: Final = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}
LOWER: Final = (
    "--normalization in lower case, as Megatron-DeepSpeed has it; Megatron-LM takes RMSNorm or LayerNorm"
)
ALIBI: Final = (
    "ALiBi: priced without positions, and with the scores that its biases are added to in memory "
    "(attention=unfused)"
)
KIND: Final = "--position-embedding-type"


def forked(flags: Mapping[str, str], gpus: int | None = None) -> tuple[dict[str, str], list[str]]:
    """Return flags of a fork as Megatron-LM's, and what to note.

    ``gpus``: accelerators in all, where they are known: some forks lay experts over what is left of them.

    Examples
    --------
    >>> forked({"--position-embedding-type": "rotary", "--seq-length": "2048"})[0]
    {'--position-embedding-type': 'rope', '--seq-length': '2048', '--max-position-embeddings': '2048'}
    >>> forked({"--glu-activation": "swiglu", "--hidden-size": "512"})[0]
    {'--ffn-hidden-size': '2048', '--hidden-size': '512', '--swiglu': ''}
    >>> forked({"--attention-head-type": "multiquery"})[0]
    {'--group-query-attention': '', '--num-query-groups': '1'}
    >>> forked({"--moe-num-experts": "4", "--moe-expert-model-parallelism": ""}, 8)[0]
    ... # doctest: +NORMALIZE_WHITESPACE
    {'--num-experts': '4', '--moe-router-topk': '1', '--moe-router-pre-softmax': '',
     '--expert-tensor-parallel-size': '1', '--expert-model-parallel-size': '4'}
    """
    same = mindspeed(_dashed(flags))
    notes = [LOWER] if same.get("--normalization") in LOWERED else []
    same |= {"--normalization": LOWERED[same["--normalization"]]} if notes else {}
    if set(same) >= MPI:
        same = {key: value for key, value in same.items() if key not in MPI}
    if not DEEPSPEED.isdisjoint(same):
        same = _deepspeed(same)
    if "--moe-num-experts" in same:
        same = _megablocks(same, gpus)
    if same.pop("--attention-head-type", "") == "multiquery":
        same |= {"--group-query-attention": "", "--num-query-groups": "1"}
    if "--glu-activation" in same:
        same = _gated(same)
    if "--use-rotary-position-embeddings" in same:
        same[KIND] = "rope"
    kind = same.get(KIND)
    if kind not in ("alibi", "rotary"):
        return same, notes
    same[KIND] = "none" if kind == "alibi" else "rope"
    if "--seq-length" in same:
        same.setdefault("--max-position-embeddings", same["--seq-length"])
    return same, [*notes, *([ALIBI] if kind == "alibi" else [])]


OF_BLOCKS: Final = {
    "--moe-num-experts": "--num-experts",
    "--moe-top-k": "--moe-router-topk",
    "--moe-loss-weight": "--moe-aux-loss-coeff",
    "--moe-capacity-factor": "--moe-expert-capacity-factor",
}
OVER_DATA: Final = "--moe-expert-model-parallelism"


def _megablocks(flags: dict[str, str], gpus: int | None) -> dict[str, str]:
    """Return flags of MegaBlocks: experts in every layer, one a token unless told, dropless without a factor.

    With ``--moe-expert-model-parallelism`` experts lie over the data-parallel ranks, as far as they go; of
    more ranks than experts each expert's inner width is shared, which is priced as copies [7]_.
    """
    same = {OF_BLOCKS.get(key, key): value for key, value in flags.items()}
    same.setdefault("--moe-router-topk", "1")
    same["--moe-router-pre-softmax"] = ""
    if same.get("--moe-expert-capacity-factor") == "0":
        del same["--moe-expert-capacity-factor"]
    if OVER_DATA not in same or same["--num-experts"] == "1":
        return same
    same["--expert-tensor-parallel-size"] = "1"
    sizes = [same.get(f"--{name}-model-parallel-size", "1") for name in ("tensor", "pipeline")]
    known = gpus and all(is_whole(size) and int(size) for size in (*sizes, same["--num-experts"]))
    if gpus and known:
        ranks = max(1, gpus // (int(sizes[0]) * int(sizes[1])))
        same["--expert-model-parallel-size"] = str(min(ranks, int(same["--num-experts"])))
        del same[OVER_DATA]
    return same


def _gated(flags: dict[str, str]) -> dict[str, str]:
    """Return flags of bigscience's gated feed-forward, of four times the width where none is said [6]_."""
    hidden = flags.get("--hidden-size", "")
    wide = {"--ffn-hidden-size": str(4 * int(hidden))} if is_whole(hidden) else {}
    return {
        **wide,
        **{key: value for key, value in flags.items() if key != "--glu-activation"},
        "--swiglu": "",
    }


def _dashed(flags: Mapping[str, str]) -> dict[str, str]:
    """Return flags with dashes, where a fork's parser spells all of them with underscores [5]_."""
    if UNDERSCORED not in flags:
        return dict(flags)
    return {key if key in DEEPSPEED else key.replace("_", "-"): value for key, value in flags.items()}


def _deepspeed(flags: dict[str, str]) -> dict[str, str]:
    """Return flags of Megatron-DeepSpeed: norms in lower case, its own words for experts; one means none."""
    groups = flags.pop("--num-key-value-heads", flags.get("--num-attention-heads"))
    if groups is not None and groups != flags.get("--num-attention-heads"):
        flags |= {"--group-query-attention": "", "--num-query-groups": groups}
    if "--normalization" in flags:
        flags["--normalization"] = NORMS.get(flags["--normalization"], "LayerNorm")
    if flags.get("--recompute-granularity") == "full":
        flags.setdefault("--recompute-num-layers", "1")
    experts = flags.get("--num-experts", "").split()
    interval, layers = flags.get("--expert-interval", "2"), flags.get("--num-layers", "")
    if experts in ([], ["1"]):
        dropped = {"--num-experts", "--moe-expert-parallel-size", "--topk", "--expert-interval", "--mlp-type"}
        return {key: value for key, value in flags.items() if key not in dropped and not _of_experts(key)}
    flags |= {"--moe-router-topk": flags.pop("--topk", "1"), "--moe-router-pre-softmax": ""}
    flags["--expert-model-parallel-size"] = flags.pop("--moe-expert-parallel-size", "1")
    tensor = flags.get("--tensor-model-parallel-size", "1")
    flags["--expert-tensor-parallel-size"] = tensor if "--enable-expert-tensor-parallelism" in flags else "1"
    if is_whole(interval) and is_whole(layers) and 0 < int(interval) <= int(layers) <= 10_000:
        marks = [str(int((layer + 1) % int(interval) == 0)) for layer in range(int(layers))]
        flags["--moe-layer-freq"] = f"[{','.join(marks)}]"
    flags.pop("--expert-interval", None)
    if flags.get("--mlp-type") == "standard":
        del flags["--mlp-type"]
    return {key: value for key, value in flags.items() if not _of_experts(key)}


SCHEDULES: Final = (
    *("--enable-zero-bubble", "--enable-zb-runtime", "--zero-bubble-v-schedule", "--enable-1f1b-v"),
    *("--enable-vocab-parallel", "--dual-pipe", "--schedules-method"),
    *("--enable-zbh1-pipeline", "--enable-zbh1-exact-semantics"),
)
"""Pipeline schedules of forks (https://github.com/sail-sg/zero-bubble-pipeline-parallelism and others)."""


RETRIEVER: Final = "--retro-add-retriever"
TEACHER: Final = re.compile(r"--(?:kd|mos|load-teacher|[\w-]+-teacher)")
"""Distillation of Megatron-DeepSpeed [1]_ (examples_deepspeed/compression)."""


def fork_sums(sheet: Sheet) -> None:
    """Make faults of a fork's schedules, which decide the layout and which Megatron-LM does not run.

    Megatron-DeepSpeed's ``--cpu-optimizer`` takes DeepSpeed's Adam for states on the host [1]_.
    """
    taught = [key for key in sheet.values if TEACHER.fullmatch(key)]
    if taught:
        sheet.seen.update(key for key in sheet.values if key.startswith("--kd") or key in taught)
        sheet.fault(taught[0], "a teacher beside the model", "none: distillation is not priced")
    if sheet.has(RETRIEVER):
        expected = "none: its encoder and its cross-attention are not priced"
        sheet.fault(RETRIEVER, "a retriever beside the model", expected)
    if sheet.values.get(OVER_DATA) is not None:
        sheet.instead[OVER_DATA] = "ep"
        sheet.fault(OVER_DATA, "experts over ranks that are not counted", "the accelerators: --gpus N --ep N")
    if sheet.has("--cpu-optimizer"):
        sheet.say("offload", "optimizer", "--cpu-optimizer")
    for key in SCHEDULES:
        if sheet.values.get(key) is not None:
            sheet.seen.add(key)
            sheet.instead[key] = "schedule"
            sheet.fault(key, "a schedule of a fork", "Megatron-LM's own: --schedule 1f1b prices it so")


def unsaved(sheet: Sheet) -> None:
    """Take back what decides no price where flags that Megatron-LM does not have show a fork."""
    others = sheet.unknown()
    if others and sheet.problems.pop("--save", None) is not None:
        sheet.notes.append(
            f"--save without --save-interval: Megatron-LM refuses it, a fork ({others[0]}) may save otherwise"
        )


def _of_experts(key: str) -> bool:
    """Whether a flag is of DeepSpeed's routing alone, which decides neither layout nor shape."""
    names = ("--moe-loss-coeff", "--moe-train-capacity-", "--moe-eval-", "--moe-min-capacity")
    words = ("--create-moe-param-group", "--disable-moe-token-dropping", "--enable-expert-tensor-parallelism")
    return key.startswith((*names, *words))
