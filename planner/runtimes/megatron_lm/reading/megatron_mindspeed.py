"""Flags of MindSpeed-LLM, which runs Megatron-LM on Ascend's accelerators, as Megatron-LM's own.

References
----------
.. [1] MindSpeed-LLM (https://gitcode.com/Ascend/MindSpeed-LLM), mindspeed_llm/features_manager and
   docs of its features: noop layers, ``num-layer-list``, ``moe-tp-extend-ep``, context parallel algorithms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner.dataclasses import replace
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.units import is_whole

OWN: Final = frozenset(
    {
        *(
            "--use-fused-rmsnorm",
            "--use-fused-swiglu",
            "--handler-name",
            "--prompt-type",
            "--no-shared-storage",
        ),
        *("--enable-hf2mg-convert", "--context-parallel-algo", "--ai-framework", "--model-type-hf"),
    }
)
"""Flags by which a script of MindSpeed is told."""

DROPPED: Final = re.compile(
    r"--(?:use-fused-(?:rmsnorm|swiglu|rotary-pos-emb)|no-shared-storage|handler-name|ai-framework|model-type-hf"
    r"|enable-hf2mg-convert|prompt-type.*|is-instruction-dataset|beta-(?:fast|slow)"
    r"|(?:low|high)-freq-factor|original-max-position-embeddings|norm-topk-prob|seq-aux|mla-(?:mm-split|fa-.*)"
    r"|enable-mla-absorb|tokenizer-not-use-fast|padded-samples|neat-pack|pack"
    r"|gemm-gradient-accumulation-fusion|shape-order|attention-mask-type|mtp-mem-efficient-logits"
    r"|topk-softmax-in-fp32|router-gating-in-fp32|enable-thinking|lora-(?:alpha|dropout|fusion|load|ckpt-.*)"
    r"|rmsnorm-weight-in-fp32|add-rmsnorm-offset|use-triton-gdn|use-(?:sparse-flash-attn|fused-lightning-indexer.*)"
    r"|indexer-loss-coeff|max-samples|history-turns|full-shuffle-.*|overwrite-cache|dataset-additional-keys"
    r"|use-cp-send-recv-overlap|kv-head-repeat-before-uly-alltoall|sparse-mode|pre-tockens|next-tockens"
    r"|load-checkpoint-loosely|npu-deterministic|rollback-.*|swap-optimizer-times|recompute-in-.*|init-norm-weight-in-fp32|hf-(?:config|load|save).*|mg-.*|enable-mg2hf-convert"
    r"|no-shuffle|workers|recompute-activation-function-num-layers|moe-zero-memory-num-layers)"
)
"""Fused kernels, which are what is priced, and flags that decide neither layout nor memory."""

UNPADDED: Final = "no padding: every sequence is priced at its full length, which the data may not reach"
NOTED: Final = {
    "--variable-seq-lengths": UNPADDED,
    "--no-pad-to-seq-lengths": UNPADDED,
    "--moe-permutation-async-comm": "its overlap of experts' messages is not priced",
    "--moe-alltoall-overlap-comm": "its overlap of experts' messages is not priced",
    "--recompute-activation-function": "priced without: a little more memory",
    "--moe-zero-memory": "priced without: more memory",
    "--use-ascend-mc2": "its overlap of tensor-parallel messages is not priced",
    "--use-ascend-coc": "its overlap of tensor-parallel messages is not priced",
    "--coc-fused-kernel": "its overlap of tensor-parallel messages is not priced",
    "--reuse-fp32-param": "priced with weights beside their float32 copies, a little more memory",
}

SHAPED: Final = (
    *("--full-attention-interval", "--enable-dsa-indexer", "--post-norm", "--interleave-sliding-window"),
    *("--add-dense-bias", "--add-output-layer-bias", "--input-embeds-norm"),
)
"""Flags of layers that are otherwise than Megatron-LM's flags describe."""

HOSTED: Final = {"--swap-optimizer": "optimizer states", "--swap-attention": "activations"}
"""What it keeps in host memory between its uses."""

METHODS: Final = {
    "megatron_cp_algo": "p2p",
    "ulysses_cp_algo": "a2a",
    "hybrid_cp_algo": "a2a+p2p",
}
"""``--context-parallel-algo`` by Megatron-core's ``--cp-comm-type``."""

HEADS: Final = {
    "--multi-head-latent-attention": "--multi-latent-attention",
    "--qk-rope-head-dim": "--qk-pos-emb-head-dim",
    "--qk-nope-head-dim": "--qk-head-dim",
}
BALANCED: Final = {"none", "aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn"}
LAYERS: Final = "--num-layers"
MOST: Final = 10_000


def mindspeed(flags: dict[str, str]) -> dict[str, str]:
    """Return flags of MindSpeed-LLM as Megatron-LM's; others as they are.

    Examples
    --------
    >>> mindspeed({"--use-fused-swiglu": "", "--num-layers": "4", "--n-shared-experts": "2",
    ...            "--moe-ffn-hidden-size": "512", "--num-experts": "8", "--first-k-dense-replace": "1"})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'--num-layers': '4', '--moe-ffn-hidden-size': '512', '--num-experts': '8',
     '--moe-shared-expert-intermediate-size': '1024', '--moe-layer-freq': '[0,1,1,1]'}
    """
    if OWN.isdisjoint(flags) and "mindspeed" not in flags.get("--spec", ""):
        return flags
    same = {HEADS.get(key, key): value for key, value in flags.items() if not DROPPED.fullmatch(key)}
    if "mindspeed" in same.get("--spec", ""):
        del same["--spec"]
    if "--padded-vocab-size" in same:
        same.setdefault("--vocab-size", same["--padded-vocab-size"])
    same = _stages(same)
    _context(same)
    return _experts(same)


def _context(flags: dict[str, str]) -> None:
    method = METHODS.get(flags.get("--context-parallel-algo", ""))
    if method is not None:
        del flags["--context-parallel-algo"]
    inner, cp = flags.pop("--ulysses-degree-in-cp", ""), flags.get("--context-parallel-size", "1")
    if method is None or cp == "1":
        return
    flags["--cp-comm-type"] = method
    if (
        method == "a2a+p2p"
        and is_whole(inner)
        and is_whole(cp)
        and int(inner) > 0
        and int(cp) % int(inner) == 0
    ):
        flags["--hierarchical-context-parallel-sizes"] = f"{inner} {int(cp) // int(inner)}"


REPEATED: Final = (
    "ulysses_cp_algo: keys of fewer heads than ranks are repeated; priced without, with smaller messages"
)


def with_repeated_keys(found: Imported, flags: Mapping[str, str]) -> Imported:
    """Return what was found; where all-to-all over a sequence repeats keys, query heads alone have to divide.

    ``--kv-head-repeat-before-uly-alltoall`` is on by default [1]_.
    """
    names = ("context-parallel-size", "tensor-model-parallel-size", "num-attention-heads", "num-query-groups")
    cp, tp, heads, groups = (flags.get(f"--{name}", "1") for name in names)
    ulysses = flags.get("--context-parallel-algo") == "ulysses_cp_algo"
    if not ulysses or not all(is_whole(size) and int(size) for size in (cp, tp, heads, groups)):
        return found
    ranks = int(cp) * int(tp)
    if int(heads) % ranks or int(groups) % ranks == 0:
        return found
    return replace(found, lifted=(*found.lifted, "cp-divides-heads"), notes=(*found.notes, REPEATED))


def _experts(flags: dict[str, str]) -> dict[str, str]:
    """Return flags with the layers that have experts, the shared ones' width, and experts over tp and ep."""
    first, every = flags.pop("--first-k-dense-replace", "0"), flags.get("--moe-layer-freq", "1")
    shared, inner = flags.pop("--n-shared-experts", ""), flags.get("--moe-ffn-hidden-size", "")
    if "--num-experts" not in flags:
        return {key: value for key, value in flags.items() if not key.startswith("--moe-")}
    if is_whole(shared) and is_whole(inner):
        flags.setdefault("--moe-shared-expert-intermediate-size", str(int(shared) * int(inner)))
    layers = flags.get(LAYERS, "")
    period = every.lstrip("-")
    if is_whole(layers) and is_whole(period) and is_whole(first.lstrip("-")) and 0 < int(layers) <= MOST:
        dense = 0 if first.startswith("-") else int(first)
        marks = [str(int(at >= dense and at % max(1, int(period)) == 0)) for at in range(int(layers))]
        flags["--moe-layer-freq"] = f"[{','.join(marks)}]"
    if flags.get("--moe-router-load-balancing-type") not in (None, *BALANCED):
        flags["--moe-router-load-balancing-type"] = "aux_loss"
    if "--moe-tp-extend-ep" in flags:
        del flags["--moe-tp-extend-ep"]
        sizes = [flags.get(f"--{name}-model-parallel-size", "1") for name in ("tensor", "expert")]
        if all(is_whole(size) for size in sizes):
            flags["--expert-model-parallel-size"] = str(int(sizes[0]) * int(sizes[1]))
            flags["--expert-tensor-parallel-size"] = "1"
    return flags


def _stages(flags: dict[str, str]) -> dict[str, str]:
    """Return flags with the layers that are there, and a layout of those that each stage has.

    Those in ``--noop-layers`` pass on what they get; ``--num-layer-list`` has the layers of each stage.
    """
    empty = [word for word in re.split(r"[,\s]+", flags.pop("--noop-layers", "")) if word]
    counts = [word for word in re.split(r"[,\s]+", flags.pop("--num-layer-list", "")) if word]
    layers, pp = flags.get(LAYERS, ""), flags.get("--pipeline-model-parallel-size", "1")
    numbers = (layers, pp, *empty, *counts)
    if not (empty or counts) or not all(is_whole(word) and int(word) <= MOST for word in numbers):
        return flags
    whole, missing, stages = int(layers), {int(word) for word in empty}, max(1, int(pp))
    flags[LAYERS] = str(sum(at not in missing for at in range(whole)))
    chunk = flags.pop("--num-layers-per-virtual-pipeline-stage", "") if empty else ""
    share = int(chunk) if is_whole(chunk) and int(chunk) > 0 else whole // stages
    if stages == 1 or (not counts and (share < 1 or whole % share)):
        return flags
    split = [int(word) for word in counts]
    for start in range(0, 0 if counts else whole, share):
        split.append(sum(at not in missing for at in range(start, start + share)))
    parts = ["t" * count for count in split]
    predicted = flags.get("--mtp-num-layers", "0")
    parts[-1] += "m" * int(predicted) if is_whole(predicted) and int(predicted) < MOST else ""
    flags["--pipeline-model-parallel-layout"] = "|".join(["E" + parts[0], *parts[1:-1], parts[-1] + "L"])
    return flags


def tuned(sheet: Sheet) -> bool:
    """Say adapters of a fine-tuning and tell what is not priced; return whether there are adapters.

    Rewards and preferences are a fault.
    """
    told: dict[str, list[str]] = {}
    for key in (key for key in NOTED if sheet.values.get(key) is not None):
        told.setdefault(NOTED[key], []).append(key)
        sheet.seen.add(key)
    sheet.notes += [f"{', '.join(keys)}: {text}" for text, keys in told.items()]
    for key in (key for key in SHAPED if sheet.values.get(key) is not None):
        sheet.fault(key, "layers of its own", "layers that other flags describe; or MODEL")
        sheet.instead[key] = "model"
    for key in (key for key in HOSTED if sheet.values.get(key) is not None):
        sheet.fault(key, f"{HOSTED[key]} in host memory", "none, or --offload with what is priced nearest")
        sheet.instead[key] = "offload"
    stage = sheet.values.get("--stage")
    if stage is not None:
        sheet.seen.add("--stage")
        if stage != "sft":
            sheet.fault(
                "--stage", str(stage), "sft: training with rewards or a reference model is not priced"
            )
    if "--lora-r" not in sheet.values:
        return False
    four = sheet.has("--qlora")
    say_adapter(sheet, 4 if four else 16, ("--lora-r", 16), ("--lora-target-modules", ("all",)))
    return True
