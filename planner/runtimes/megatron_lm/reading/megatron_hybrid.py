"""Layers of one part each in a Megatron-LM script, as a pattern of symbols puts them in order.

References
----------
.. [1] Megatron-LM d98e8a64, megatron/core/models/hybrid/hybrid_layer_allocation.py: ``Symbols`` and
   ``pattern_from_ratios``; megatron/training/arguments.py: older names of the flags.
.. [2] megatron/core/ssm/mamba_mixer.py and transformer_config.py: what a state space has unsaid.
"""

from __future__ import annotations

from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_lm.hybrid import MTP
from planner.units import is_whole

PATTERNS: Final = ("--hybrid-layer-pattern", "--hybrid-override-pattern")
RATIOS: Final = ("--hybrid-attention-ratio", "--hybrid-mlp-ratio")
PARTS: Final = {"M": "mixer", "*": "mixer", "-": "ffn", "E": "ffn"}
EXPANSION: Final = 2
"""Inner width of a state space over the model's where its heads are not said [2]_. [-]"""
CHUNK: Final = 128
"""Tokens of a chunk of the scan [2]_."""
MOST: Final = 10_000
BORDERED: Final = ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers")
"""What borders in a pattern take the place of."""
CUT: Final = (
    *("--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"),
    *("--pipeline-model-parallel-layout", "--account-for-embedding-in-pipeline-split"),
    "--account-for-loss-in-pipeline-split",
)
"""What any pattern takes the place of."""


def hybrid_stages(sheet: Sheet, layers: int | None) -> list[str] | None:
    """Return the symbols of each virtual stage, one for all where no borders are said; None without any."""
    text = str(sheet.take(*PATTERNS) or "").strip("\"'")
    key = next((key for key in PATTERNS if key in sheet.values), PATTERNS[0])
    ratios = [_ratio(sheet, key) for key in RATIOS]
    if not text and any(ratios) and layers and layers <= MOST and sum(ratios) <= 1:
        text = pattern_of(layers, *ratios)
    if not text:
        return None
    main, *extra = text.split(MTP)
    if not set(text) <= set(PARTS) | {"|", MTP} or len(text) > MOST or len(set(extra)) > 1 or "" in extra:
        sheet.fault(key, repr(text[:40]), "layers M, *, - and E, with | between stages, / before prediction")
        return None
    return main.split("|")


def prediction_symbols(sheet: Sheet) -> list[str]:
    """Return the symbols of each prediction layer of a pattern that `hybrid_stages` takes."""
    return str(sheet.take(*PATTERNS) or "").strip("\"'").split(MTP)[1:]


def hybrid_sums(sheet: Sheet) -> list[tuple[str, bool, str, str]]:
    """Return what Megatron-LM asserts of a pattern: key, whether it is broken, found, expected."""
    given = [key for key in PATTERNS if sheet.values.get(key) is not None]
    if not given:
        return []
    key, text = given[0], str(sheet.values[given[0]])
    stages = text.partition(MTP)[0].count("|") + 1
    degree = str(sheet.values.get("--pipeline-model-parallel-size") or "1")
    pp = int(degree) if is_whole(degree) else 0
    excluded = CUT + (BORDERED if stages > 1 else ())
    borders = "the borders | of the pattern alone"
    return [
        *(
            (other, sheet.values.get(other) not in (None, False), f"with {key}", borders)
            for other in excluded
        ),
        (key, len(given) > 1, f"with {given[-1]}", "one of them"),
        (
            key,
            stages > 1 and pp > 0 and stages % pp != 0,
            f"{stages} stages",
            f"a multiple of {pp} (--pipeline-model-parallel-size)",
        ),
        (
            "--mtp-num-layers",
            sheet.values.get("--mtp-num-layers") is not None and MTP not in text,
            f"with {key}",
            "a hybrid without it, or / and the symbols of each such layer in the pattern",
        ),
    ]


def hybrid_program(sheet: Sheet, words: tuple[str, ...]) -> None:
    """Make a fault of a pattern that the program does not look at, as ``pretrain_gpt.py`` does not."""
    given = [key for key in PATTERNS if sheet.values.get(key) is not None]
    if given and words and words[0].rpartition("/")[2] == "pretrain_gpt.py":
        sheet.instead[given[0]] = "model"
        sheet.fault(given[0], "with pretrain_gpt.py, which builds no hybrid", "pretrain_hybrid.py")


def _ratio(sheet: Sheet, key: str) -> float:
    try:
        value = float(sheet.take(key) or 0)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        sheet.fault(key, repr(str(sheet.values[key]))[:40], "a share between 0 and 1")
        return 0.0
    return value


def pattern_of(layers: int, attention: float, mlp: float) -> str:
    """Return the pattern that Megatron-core makes of the shares of attention and feed-forwards [1]_.

    Attention lies evenly between state spaces; feed-forwards then take the place of state spaces.

    Examples
    --------
    >>> pattern_of(8, 0.25, 0.25)
    'MM*-M*M-'
    """
    kinds = ["M"] * layers
    count = round(layers * attention)
    section = (layers - count) / (count + 1)
    left = section
    for layer in range(layers):
        kinds[layer] = "*" if left < 0.5 else "M"
        left += section if left < 0.5 else -1
    wide = round(layers * mlp)
    share = (layers - count - wide) / wide if wide else 0.0
    left = share
    for layer in range(layers if wide else 0):
        if kinds[layer] == "M":
            kinds[layer] = "-" if left < 0.5 else "M"
            left += share if left < 0.5 else -1
    return "".join(kinds)


def state_space(sheet: Sheet, hidden: int) -> dict[str, Any]:
    """Return the Mamba-2 mixer that the flags describe."""
    sizes = {name: sheet.degree(f"--mamba-{name}") for name in ("head-dim", "num-groups", "state-dim")}
    width = sizes["head-dim"] or 64
    return {
        "kind": "mamba2",
        "heads": sheet.degree("--mamba-num-heads") or max(1, EXPANSION * hidden // max(width, 1)),
        "head_dim": width,
        "groups": sizes["num-groups"] or 8,
        "state": sizes["state-dim"] or 128,
        "chunk": CHUNK,
    }
