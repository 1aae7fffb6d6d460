"""Which layers get adapters, in the words of the libraries that put them there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet

LAYERS: Final = {
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "qkv_proj": "qkv", "linear_qkv": "qkv",
    "c_attn": "qkv", "Wqkv": "qkv", "wqkv": "qkv", "W_pack": "qkv", "query_key_value": "qkv",
    "wo": "proj", "w1": "fc1", "w3": "fc1", "w2": "fc2",
    "q_a_proj": "qkv", "q_b_proj": "qkv", "kv_a_proj_with_mqa": "qkv", "kv_b_proj": "qkv",
    "dense": "proj", "dense_h_to_4h": "fc1", "dense_4h_to_h": "fc2",
    "attn.c_proj": "proj", "mlp.c_proj": "fc2", "c_fc": "fc1", "fc_in": "fc1", "fc_out": "fc2",
    "o_proj": "proj", "linear_proj": "proj", "out_proj": "proj",
    "gate_proj": "fc1", "up_proj": "fc1", "gate_up_proj": "fc1", "linear_fc1": "fc1",
    "down_proj": "fc2", "linear_fc2": "fc2",
}  # fmt: skip
"""Linear layers of Hugging Face and of Megatron-core by the names that the planner has for them."""

ORDER: Final = ("qkv", "proj", "fc1", "fc2")
_ENDS: Final = re.compile(r".{0,200}\(((?:(?:up|down|gate|q|k|v|o)\|?)+)\)_proj\$?")
"""A regular expression of peft's ``target_modules`` that ends with the layers, such as ``...(q|v)_proj``."""

EVERY: Final = {"all", "all-linear", "all_linear", "true"}
DROPOUT: Final = ("lora_dropout", 0.0)
"""What most libraries call the share of an adapter's input that is dropped, and peft's default
(peft/tuners/lora/config.py)."""
PEFT_DEFAULT: Final = ("q_proj", "v_proj")
"""peft's target modules where none are said (peft/utils/constants.py: Llama, Mistral and most others)."""


def target_words(value: Any) -> list[str]:
    r"""Return the names in a list, in text between commas or blanks, or in a regular expression of them.

    Examples
    --------
    >>> target_words("q_proj,v_proj"), target_words(["all-linear"])
    (['q_proj', 'v_proj'], ['all-linear'])
    >>> target_words(r"model.layers.[\d]+.(mlp|self_attn).(up|down)_proj")
    ['up_proj', 'down_proj']
    """
    ends = _ENDS.fullmatch(value.strip()) if isinstance(value, str) else None
    if ends is not None:
        return [f"{word}_proj" for word in ends[1].split("|")]
    words: Iterable[Any] = (
        value if isinstance(value, list | tuple) else re.split(r"[,\s\[\]'\"]+", str(value))
    )
    return [str(word).strip() for word in words if str(word).strip()]


def _last(path: str) -> str:
    """Return the last name of a path of modules, with the one before it where that tells the layer."""
    two = ".".join(path.split(".")[-2:])
    return two if two in LAYERS else path.rpartition(".")[2]


def say_targets(sheet: Sheet, words: Iterable[str], key: str) -> None:
    """Say which layers have adapters; a layer that the planner has not is a fault at ``key``."""
    names = [_last(word) if word.lower() not in EVERY else "all" for word in words]
    sheet.instead[key] = "lora_targets"
    if not names or "all" in names:
        return
    known = LAYERS if "c_attn" in names else {**LAYERS, "c_proj": "fc2"}  # beside it, attention's output too
    other = [name for name in names if name not in known]
    if other:
        expected = f"{', '.join(LAYERS)} or all; or --lora-targets, as A+B of {', '.join(ORDER)}"
        sheet.fault(key, ", ".join(other)[:80], expected)
        return
    groups = {known[name] for name in names}
    split = [name for name in ("q_proj", "k_proj", "v_proj") if name in names]
    if split and len(split) < 3:
        sheet.notes.append(f"adapters on {' and '.join(split)}: priced as on all of qkv, a little more")
    if len({"gate_proj", "up_proj"} & set(names)) == 1:
        sheet.notes.append("adapters on half of gate and up: priced as on both, a little more")
    sheet.say("lora_targets", "+".join(name for name in ORDER if name in groups), key)


def say_dropout(sheet: Sheet, key: str, usual: float) -> None:
    """Say that adapters drop a part of their input, where the share at ``key`` is above 0."""
    value = sheet.take(key)
    try:
        share = usual if value in (None, "") else float(value)
    except (TypeError, ValueError):
        share = math.nan
    if not 0 <= share <= 1:
        sheet.fault(key, repr(str(value)[:40]), "a share of 0 to 1")
    elif share:
        sheet.changes.append("adapter_dropout=true")


def say_adapter(
    sheet: Sheet,
    bits: int,
    rank: tuple[str, int],
    targets: tuple[str, Iterable[str]],
    dropout: tuple[str, float] = DROPOUT,
) -> None:
    """Say adapters on a base of 16 or 4 bits.

    ``bits``: bits of a weight of the base: 4 is QLoRA; ``rank``: the key of the adapters' rank, and what it
    is where the key is not there; ``targets``: the key of the layers, and those that it has where nothing is
    said; ``dropout``: the key of the share of its input that an adapter drops, and what it is where the key
    is not there.
    """
    sheet.say("method", "qlora" if bits == 4 else "lora")
    key, default = rank
    said = sheet.whole(key)
    sheet.say("lora_rank", default if said is None else said, key)
    say_dropout(sheet, *dropout)
    key, usual = targets
    value = sheet.take(key)
    if value in (None, "", []) and list(usual) == list(PEFT_DEFAULT):
        sheet.notes.append(f"no {key}: {' and '.join(usual)}, as peft has it for most models; --lora-targets")
    say_targets(sheet, target_words(value) if value not in (None, "", []) else list(usual), key)
