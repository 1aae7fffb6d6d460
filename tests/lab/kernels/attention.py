"""The attention entries of a curve file, fitted to the measured tables."""

from __future__ import annotations

from collections.abc import Sequence

from planner.calibrate.kernels.attention import NAMES, SHARED, fit_attention
from planner.calibrate.kernels.entries import Entry, accuracy, microseconds, plain, size_range
from planner.calibrate.kernels.fit import Columns, Fit
from planner.calibrate.kernels.tables import Datasheet, Row, columns, select

BACKENDS = ("sglang-0.5.14", "sglang-0.5.10", "sglang-0.5.9", "vllm-0.24.0")
"""Backends that time attention alone; the first that has the accelerator is fitted."""


MOST_MEASURED = "128"
"""Head size with the fullest table, which lends the others what theirs cannot tell. [element]"""


DIAGONAL_KEYS = 64.0
"""Half of a tile of 128: the keys beyond the diagonal that a tile computes for each query. [element]"""


BACKWARD_SOURCES = {
    "fa2": (0.57, "https://arxiv.org/abs/2307.08691", "FlashAttention-2, in training runs on A100"),
    "fa3": (0.52, "https://arxiv.org/abs/2407.08608", "FlashAttention-3, in training recipes on H100"),
    "cudnn": (0.55, "https://github.com/NVIDIA/cudnn-frontend", "cuDNN, in training recipes on Blackwell"),
}
"""Backward efficiency in bf16, where it is from, and in words; no kernel table has the backward pass."""


BACKWARD_SLOPE = 0.7
"""What a narrow head adds to backward time for each FLOP, over what it adds forward. [-]

Forward reaches 497 and 648 TFLOP/s on H100 at head sizes 64 and 128, backward 474 and 561 (J. Shah et al.,
arXiv:2407.08608, fig. 5 and 6, 16k, not causal): (1/474 - 1/561) / (1/497 - 1/648).
"""


def backend_of(table: Sequence[Row]) -> str:
    """First of the known backends that has rows.

    Raises
    ------
    ValueError
        If none has any.
    """
    for name in BACKENDS:
        if select(table, source=name):
            return name
    raise ValueError(f"no rows of {', '.join(BACKENDS)}")


def backward_kernel(sheet: Datasheet) -> str:
    """Which backward kernel training runs on this accelerator."""
    if sheet.small_tiles:
        return "fa2"
    return "cudnn" if sheet.peaks["nvfp4"] else "fa3"


def backward_efficiency(head_dim: str, widest: float, forward: float, forward_widest: float) -> float:
    r"""Return what the backward pass of a head size reaches, which wider ones than 128 share with that size.

    .. math:: \frac{1}{e_b} = \frac{1}{e_{b,128}} + 0.7 \max\left(0, \frac{1}{e} - \frac{1}{e_{128}}\right)

    Parameters
    ----------
    head_dim : str
        Head size. [element]
    widest : float
        That of size 128. [-]
    forward, forward_widest : float
        Efficiency of the forward pass, of this head size and of size 128. [-]
    """
    if int(head_dim) >= int(MOST_MEASURED):
        return widest
    return 1 / (1 / widest + BACKWARD_SLOPE * max(0.0, 1 / forward - 1 / forward_widest))


def attention_entry(
    fitted: Fit, sheet: Datasheet, shape: Columns, row: Row, lasting: float, backward: float
) -> Entry:
    """Fields of one head size that `planner.inputs.curves.attention_curve` reads."""
    values = fitted.values
    _, source, words = BACKWARD_SOURCES[backward_kernel(sheet)]
    in_bf16 = sheet.peaks["bf16"] / sheet.peaks[row["dtype"]]
    return {
        "efficiency": plain(values["efficiency"]),
        "sustained_ratio": plain(lasting),
        "sustained_standing": "that of bf16 products",
        "half_keys": plain(values["half_keys"]),
        "shared_half_keys": plain(values["shared_half_keys"]),
        "half_queries_per_multiprocessor": plain(values["half_queries_per_multiprocessor"]),
        "launch": microseconds(values["launch"]),
        "range": {name: size_range(shape[name]) for name in ("seq", "batch", "heads")},
        "kernel": row["kernel"],
        "backward_efficiency": plain(backward * in_bf16),
        "backward_half_keys": plain(DIAGONAL_KEYS),
        "backward_standing": "literature",
        "backward_source": source,
        "backward_kernel": words,
    }


def attention_entries(
    table: Sequence[Row], sheet: Datasheet, droop: float, lasting: float
) -> dict[str, dict[str, Entry]]:
    """Fit every data type and head size that one accelerator was measured in.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator.
    sheet : Datasheet
        The accelerator.
    droop : float
        Share by which long bf16 products slow down. [-]
    lasting : float
        Share of the burst rate that bf16 products hold for hours. [-]
    """
    entries: dict[str, dict[str, Entry]] = {}
    widest = BACKWARD_SOURCES[backward_kernel(sheet)][0]
    forward: dict[str, float] = {}
    for dtype in sorted({row["dtype"] for row in table}):
        own = select(table, dtype=dtype, source=backend_of(select(table, dtype=dtype)))
        lent, sizes = 0.0, {}
        for head_dim in sorted(
            {row["head_dim"] for row in own}, key=lambda size: (size != MOST_MEASURED, size)
        ):
            measured = select(own, head_dim=head_dim)
            fitted = fit_attention(measured, dtype, sheet, droop, lent)
            lent = fitted.values[SHARED.name] if head_dim == MOST_MEASURED else lent
            rate = forward.setdefault(head_dim, fitted.values["efficiency"])
            backward = backward_efficiency(head_dim, widest, rate, forward.get(MOST_MEASURED, rate))
            entry = attention_entry(fitted, sheet, columns(measured, NAMES), measured[0], lasting, backward)
            sizes[head_dim] = entry | accuracy(fitted, measured[0]["source"])
        entries[dtype] = {size: sizes[size] for size in sorted(sizes, key=int)}
    return entries
