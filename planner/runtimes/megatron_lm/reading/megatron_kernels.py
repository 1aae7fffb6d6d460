"""Which kernels Megatron-LM's flags start: attention, by its backend or the release, and the loss.

References
----------
.. [1] Megatron-LM, megatron/core/models/gpt/gpt_layer_specs.py, ``get_gpt_layer_local_spec``: without
   Transformer Engine attention keeps all scores.
.. [2] Megatron-LM 23.06 and Megatron-DeepSpeed, megatron/model/transformer.py, ``ParallelAttention``:
   FlashAttention where ``--use-flash-attn`` asks for it, and ``CoreAttention``, which keeps all scores, else.
.. [3] Transformer Engine, pytorch/attention/dot_product_attention/utils.py, ``FlashAttentionUtils``: the
   newest FlashAttention that is installed.
.. [4] Megatron-LM, megatron/training/arguments.py, ``--cross-entropy-loss-fusion``: off unless it is there.
"""

from __future__ import annotations

import re
from typing import Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_lm.reading.megatron_names import TE_LOSS

KERNELS: Final = {"unfused": "unfused", "local": "unfused", "flash": "flash-2"}
FLASH: Final = (
    "--attention-backend flash: priced as FlashAttention-2, the release that NVIDIA's containers hold; with "
    "FlashAttention-3 installed, --set attention=flash-3"
)
EXACT: Final = "--deterministic-mode: attention priced as FlashAttention-2's, whose sums come in one order"

ASKED: Final = re.compile(
    r"--use-(?:flash-attn.*|fused-attn.*|flash-attention.*|fusion-attn.*|mcore-.*flash.*)"
)
"""Flags of Megatron-LM and its forks that ask for attention without scores."""
OLDER: Final = (
    *("--data-impl", "--DDP-impl", "--no-query-key-layer-scaling", "--checkpoint-activations"),
    *("--deepspeed", "--deepspeed_config", "--deepspeed-config", "--zero-stage"),
    *("--no-pipeline-parallel", "--deepspeed-activation-checkpointing"),
)
"""Flags that only releases have whose attention keeps its scores unless it is asked for otherwise [2]_."""
IMPLEMENTATION: Final = "--transformer-impl"


UNFUSED: Final = "loss=vocab-parallel"

LACKING: Final = (
    (
        "--overlap-param-gather",
        ("--use-distributed-optimizer", "--overlap-grad-reduce"),
        "weights are priced as gathered beside the passes",
    ),
    ("--moe-grouped-gemm", ("--num-experts",), "experts are priced as multiplied at once"),
    ("--moe-permute-fusion", ("--num-experts",), "tokens are priced as ordered by a fused kernel"),
)
"""Flags that are off unless they are there, those beside which they matter, and what is priced [4]_."""


def tell_lacking(sheet: Sheet) -> None:
    """Tell what a command leaves out that is priced as if it were there."""
    for flag, beside, told in LACKING:
        if sheet.values.get(flag) is None and all(sheet.values.get(key) is not None for key in beside):
            sheet.notes.append(f"no {flag}: {told}")


def say_loss(sheet: Sheet) -> None:
    """Say the kernels of the loss: a chain of them, unless a fused one is asked for [4]_."""
    if not sheet.has("--cross-entropy-loss-fusion"):
        sheet.changes.append(UNFUSED)
    elif sheet.values.get("--cross-entropy-fusion-impl") == "te":
        sheet.changes.append("loss=transformer-engine")
        sheet.notes.append(TE_LOSS)


def say_attention(sheet: Sheet) -> None:
    """Say the kernel of attention, where flags decide it."""
    exact = sheet.has("--deterministic-mode")
    sheet.changes += ["deterministic=true"] if exact else []
    backend = sheet.take("--attention-backend")
    kernel = KERNELS.get(str(backend), "flash-2" if exact else "")
    if kernel:
        sheet.changes.append(f"attention={kernel}")
        sheet.notes += [EXACT if exact else FLASH] if kernel == "flash-2" else []
    elif backend is None and (why := _keeps_scores(sheet)):
        sheet.changes += ["attention=unfused"] * ("attention=unfused" not in sheet.changes)
        sheet.notes.append(f"{why}: attention keeps its scores (attention=unfused)")


def _keeps_scores(sheet: Sheet) -> str:
    """Return why attention keeps its scores; nothing where it does not, or nothing says so [1]_ [2]_."""
    said = sheet.values.get(IMPLEMENTATION)
    if any(ASKED.fullmatch(key) and sheet.values[key] is not None for key in sheet.values):
        return ""
    if said is not None:
        return f"{IMPLEMENTATION} local without --use-flash-attn" if said == "local" else ""
    old = next((key for key in OLDER if sheet.values.get(key) is not None), "")
    return f"{old} without --use-flash-attn, so an older release" if old else ""
