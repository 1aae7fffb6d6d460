"""Other spellings in a run table: of accelerators, number formats, schedules and recompute."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, TypeVar

from planner.calibrate.runs.table import Run
from planner.techniques.precision import PRECISIONS
from planner.techniques.schedules import SCHEDULES

V = TypeVar("V")

_MAKERS: Final = re.compile(
    r"\b(nvidia|amd|intel|habana|huawei|google|cloud|aws|tesla|instinct|geforce|tensor|core|gpus?|hpu|oam"
    r"|edition|nvl72)\b"
)
_SIZE: Final = re.compile(r"\d+gb")
NEAR: Final = 0.08
"""Share by which the memory in a name may differ from the accelerator's: labels count some of it. [-]"""

_FORMATS: Final = (
    (re.compile(r"nv-?fp4|^fp4$"), "nvfp4"),
    (re.compile(r"mx-?fp8|(fp8|float8)-mx(-|$)"), "mxfp8"),
    (re.compile(r"(fp8|float8).*(block|sub|-sc$)"), "fp8-block"),
    (re.compile(r"(fp8|float8).*(delayed|-ds$)"), "fp8-delayed"),
    (re.compile(r"^(bf16-)?(fp8|float8)"), "fp8"),
    (re.compile(r"^(bf16|bfloat16)"), "bf16"),
    (re.compile(r"^(fp16|float16|amp$)"), "fp16"),
)
_WHOLE: Final = re.compile(
    r"(full-)?uniform([:-]\d+)?|full-(recompute|uniform|block)|yes|on|true|1|all|every|every_?layer"
    r"|(activation|gradient)[_-]?checkpoint(ing)?"
)
_BLOCKS: Final = re.compile(r"(?:full)?[(+:-]?block[:+=-]?(\d+)\)?")
_NONE: Final = re.compile(r"no|off|false|0")
_NOTHING: Final = re.compile(r"no|off|false|0|none|cpu offload used for.*")
"""Words of an offload that none is: the last tells of some rows, and not which."""
_CP_METHODS: Final = (
    ("distflash", "lightseq"), ("lightseq", "lightseq"), ("a2a+p2p", "usp"), ("usp", "usp"),
    ("ulysses-ring", "usp"), ("ulysses", "all-to-all"), ("a2a", "all-to-all"), ("all-to-all", "all-to-all"),
    ("all-gather", "all-gather"), ("allgather", "all-gather"),
)  # fmt: skip
_MODULE: Final = re.compile(r"(core[_-]?attn|attention|mlp|moe(_act)?|layer-?norm|norm|mla_up_proj)(\+\w+)*")


OTHER_SCHEDULES: Final = {
    "none": "", "afab": "gpipe", "all-forward-all-backward": "gpipe",
    "looped-bfs": "breadth-first", "looped-dfs": "interleaved-1f1b",
    "zero-bubble-h1": "zb-h1", "zero-bubble-v": "zb-v", "interleaved-zero-bubble": "interleaved-zb",
}  # fmt: skip
"""What sources call a schedule and no runtime does: arXiv:2211.05953 of looped ones, arXiv:2401.10241."""


def words(name: str) -> tuple[str, ...]:
    """Return the words of an accelerator's name in alphabetical order, without its maker.

    Examples
    --------
    >>> words("NVIDIA H100-NVL 94GB"), words("V100_SXM2-32GB")
    (('94gb', 'h100', 'nvl'), ('32gb', 'sxm', 'v100'))
    """
    plain = re.sub(r"[^a-z0-9]+", " ", name.lower())
    return tuple(sorted(re.sub(r"^sxm\d$", "sxm", word) for word in _MAKERS.sub(" ", plain).split()))


def without_size(named: Iterable[str]) -> tuple[tuple[str, ...], float | None]:
    """Return words without the one that is a memory size, and that size. [GB]"""
    sizes = [word for word in named if _SIZE.fullmatch(word)]
    rest = tuple(word for word in named if word not in sizes)
    return rest, float(sizes[0][:-2]) if len(sizes) == 1 else None


def by_words(name: str, known: Mapping[str, V]) -> tuple[V | None, float | None]:
    """Return what has the same words as ``name``, else the same but for a memory size, and that size. [GB]"""
    spelled: dict[tuple[str, ...], V] = {}
    for spelling, value in known.items():
        spelled.setdefault(words(spelling), value)
        spelled.setdefault(("".join(words(spelling)),), value)
    wanted = words(name)
    for key in (wanted, ("".join(re.findall(r"[a-z0-9]+", _MAKERS.sub(" ", name.lower()))),)):
        if key in spelled:
            return spelled[key], None
    rest, size = without_size(wanted)
    return (spelled.get(rest), size) if size is not None and rest else (None, None)


@cache
def precision_name(text: str) -> str:
    """Return a number format as the planner spells it, or the text where it is none.

    Examples
    --------
    >>> precision_name("BF16-mixed"), precision_name("fp8_tensorwise"), precision_name("FP8-SC")
    ('bf16', 'fp8', 'fp8-block')
    >>> precision_name("FP8-MX"), precision_name("fp8-mixed")
    ('mxfp8', 'fp8')
    """
    if text in PRECISIONS:
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower())
    return next((name for pattern, name in _FORMATS if pattern.search(plain)), text)


@cache
def schedule_name(text: str) -> str:
    """Return a schedule as the planner spells it, whatever its case; ``interleaved`` stays.

    Examples
    --------
    >>> schedule_name("Interleaved 1F1B"), schedule_name("AFAB"), schedule_name("1F1B")
    ('interleaved-1f1b', 'gpipe', '1f1b')
    """
    if text in SCHEDULES or text in ("", "interleaved"):
        return text
    words = re.sub(r"[-_ ]+", "-", text.lower())
    names = {
        spelling.lower(): entry.name
        for entry in SCHEDULES.values()
        for spelling in (*entry.aliases, entry.name)
    }
    names |= {name.replace("-", ""): known for name, known in names.items()} | OTHER_SCHEDULES
    return names.get(words, names.get(words.replace("-", ""), text))


@cache
def recompute_words(text: str) -> str:
    """Return a table's recompute with one spelling for the words that mean all, nothing, or modules.

    Examples
    --------
    >>> recompute_words("uniform:1"), recompute_words("Selective:moe_act,layernorm"), recompute_words("mlp")
    ('full', 'selective:moe_act+layernorm', 'selective:mlp')
    >>> recompute_words("full (block, 8)"), recompute_words("Selective (core_attn)")
    ('block:8', 'selective:core_attn')
    """
    plain = text.lower().replace(",", "+").replace(" ", "")
    if (some := _BLOCKS.fullmatch(plain)) is not None:
        return f"block:{some[1]}"
    plain = re.sub(r"^selective\((.+)\)$", r"\1", plain)
    if _WHOLE.fullmatch(plain):
        return "full"
    if _NONE.fullmatch(plain):
        return "none"
    if _MODULE.fullmatch(plain):
        return "selective:" + plain.replace("attention", "core_attn")
    return {"selective:op": "selective:per-op"}.get(plain, plain)


@cache
def context_method(text: str) -> str:
    """Return a context-parallel method as the planner spells it: a ring unless it says otherwise.

    Examples
    --------
    >>> context_method("Ulysses"), context_method("all_gather"), context_method("distflashattn (balanced)")
    ('all-to-all', 'all-gather', 'lightseq')
    """
    plain = text.lower().replace("_", "-")
    return next((name for word, name in _CP_METHODS if word in plain), "ring" if text else "")


def spelled(run: Run) -> Run:
    """Return a run whose techniques are spelled as the planner spells them."""
    values = {
        "cp_method": context_method(run.cp_method),
        "offload": "none" if _NOTHING.fullmatch(run.offload.lower()) else run.offload,
        "precision": precision_name(run.precision),
        "schedule": schedule_name(run.schedule),
        "recompute": recompute_words(run.recompute),
    }
    return run.with_values({name: value for name, value in values.items() if value != getattr(run, name)})
