"""A page and a picture of what was measured on one machine: kernels, training steps, a plan's own kernels."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from planner.units import GIB
from tests.gpu.train_step import summary
from tests.gpu.unseen import mean_errors
from tests.lab.accuracy.plot import picture

Row = dict[str, Any]

GOALS = {
    "products bf16": 0.04,
    "products fp8": 0.04,
    "attention forward": 0.05,
    "attention backward": 0.05,
    "memory-bound operators": 0.07,
}
"""Largest mean error that the project promises. [-]"""


def lines_of(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines, none where there is no file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def share(value: float | None, sign: str = "") -> str:
    """Return a share in percent, a dash where unknown."""
    return "-" if value is None else f"{value:{sign}.1%}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return lines of a table."""
    body = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|", *body, ""]


def kernels(rows: Sequence[Row]) -> list[str]:
    """Return the section on kernels that the profile has not seen."""
    if not rows:
        return ["No kernels beside those of the profile were measured.", ""]
    lines = table(
        ("kernels", "points", "mean error", "goal", "worst", "curves that ship: mean", "and on the whole"),
        (
            (
                row["what"], row["points"], share(row["mean"]), share(GOALS.get(row["what"])),
                share(row["worst"]), share(row["shipped_mean"]), share(row["shipped_bias"], "+"),
            )
            for row in mean_errors(rows)
        ),
    )  # fmt: skip
    return [*lines, "`On the whole`: predicted over measured time, minus one; below zero is too fast.", ""]


def steps(rows: Sequence[Row]) -> list[str]:
    """Return the section on training steps, each wrapper by itself."""
    if not rows:
        return ["No training steps were run.", ""]
    found = []
    for wrapper in sorted({row["wrapper"] for row in rows}):
        own = summary([row for row in rows if row["wrapper"] == wrapper])
        found += [
            f"{wrapper}: {own['cases']} cases; time {share(own['time_mean'])} mean and "
            f"{share(own['time_worst'])} worst (goal 5% and 10%); peak memory {share(own['memory_mean'])} "
            f"mean and {share(own['memory_worst'])} worst (goal 3%); ran out though predicted to fit: "
            f"{', '.join(own['ran_out_though_predicted_to_fit']) or 'none'}; "
            f"failed: {', '.join(own['failed']) or 'none'}.",
            "",
        ]
    return found + table(
        ("case", "measured s", "predicted s", "error", "measured GiB", "predicted GiB", "error"),
        map(_step, rows),
    )


def _step(row: Row) -> Sequence[object]:
    predicted = (f"{row['predicted_s']:.4f}", f"{row['predicted_bytes'] / GIB:.2f}")
    if "seconds" not in row:
        told = "out of memory" if row["oom"] else row["failed"]
        return row["case"], told, predicted[0], "-", "-", predicted[1], "-"
    time, peak = row["seconds"], row["peak_bytes"]
    return (
        row["case"], f"{time:.4f}", predicted[0], share(row["predicted_s"] / time - 1, "+"),
        f"{peak / GIB:.2f}" if peak else "-", predicted[1],
        share(row["predicted_bytes"] / peak - 1, "+") if peak else "-",
    )  # fmt: skip


def checked(folder: Path) -> list[str]:
    """Return the section on a plan's own kernels."""
    path = folder / "check.json"
    if not path.is_file() or not path.read_text(encoding="utf-8").strip():
        return ["`planner check` gave no answer.", ""]
    answer = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        (row["part"], row["operator"], row["pass"], f"{row['predicted_s'] * 1e6:.1f}",
         f"{row['measured_s'] * 1e6:.1f}", share(row["predicted_s"] / row["measured_s"] - 1, "+"))
        for row in answer["operators"] if row["measured_s"]
    ]  # fmt: skip
    said = f"The step estimate should move by {share(answer['move'], '+')}."
    heads = ("part", "operator", "pass", "predicted us", "measured us", "error")
    return [said, "", *table(heads, rows)]


def page(folder: Path, told: Sequence[str]) -> str:
    """Return the page of a folder that `tests.gpu.measure` has filled, with what went wrong."""
    head = (lines_of(folder / "profile.raw.jsonl") or [{}])[0]
    words = [f"{name} {head[name]}" for name in ("driver", "cuda", "nccl", "torch") if head.get(name)]
    parts = [
        f"# Measured: {head.get('device', 'an unknown device')}",
        "",
        f"{head.get('date', '')}, {', '.join(words)}. Made by `make measure-gpu`; the rows lie beside it.",
        "",
        *[line for fault in told for line in (f"- {fault}", "")],
        "## Kernels that the profile has not seen",
        "",
        *kernels(lines_of(folder / "unseen.jsonl")),
        "## Training steps",
        "",
        "![predicted against measured seconds per step](steps.svg)",
        "",
        *steps(lines_of(folder / "steps.jsonl")),
        "## A plan's own kernels",
        "",
        *checked(folder),
    ]
    return "\n".join(parts).rstrip() + "\n"


def plot(rows: Sequence[Row]) -> str:
    """Return predicted against measured steps as a picture, a colour for each wrapper."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "seconds" in row:
            pair = math.log10(row["seconds"]), math.log10(row["predicted_s"])
            points.setdefault(row["wrapper"], []).append(pair)
    return picture("Predicted against measured seconds per step on one device", points)


def write(folder: Path, told: Sequence[str]) -> None:
    """Write ``README.md`` and ``steps.svg`` into the folder."""
    (folder / "steps.svg").write_text(plot(lines_of(folder / "steps.jsonl")), encoding="utf-8")
    (folder / "README.md").write_text(page(folder, told), encoding="utf-8")
