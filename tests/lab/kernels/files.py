"""The curve file of each accelerator, fitted to the measured kernel tables, and files written whole."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from planner.calibrate.kernels.collectives import operation_entry
from planner.calibrate.kernels.entries import Entry
from planner.calibrate.kernels.files import UNFUSED, datasheet_entry
from planner.calibrate.kernels.tables import DATASHEETS, Datasheet, Row, select
from planner.errors import InputError, Problem
from planner.formulas.collective_curves import BUS_FACTOR
from planner.inputs.curves import gemm_curve
from planner.units import parse
from tests.lab.kernels.attention import attention_entries
from tests.lab.kernels.experts import experts_entries
from tests.lab.kernels.gemm import gemm_entries
from tests.lab.kernels.heads import LENDERS, Sizes, lent_heads

Tables = Mapping[str, Sequence[Row]]


LICENCE = (
    "Measurements copyright NVIDIA Corporation and affiliates, Apache-2.0. The constants here were fitted "
    "to 70% of the shapes, milliseconds having been turned into microseconds; no measurement is reproduced."
)


MEMORY_BOUND: Entry = {
    "efficiency": "0.85",
    "launch": "3 us",
    "standing": "literature",
    "source": "https://arxiv.org/abs/2205.14135",
    "note": "share of the memory bandwidth in norms, activations and optimizer steps of training runs",
}


def curve_file(name: str, sheet: Datasheet, tables: Tables) -> Entry:
    """Fit all curves of one accelerator."""
    own = {table: select(content, gpu=name) for table, content in tables.items()}
    gemm = gemm_entries(own["gemm"], own["gemm_sustained"], sheet)
    droop, lasting = (parse(gemm["bf16"][name], "-") for name in ("droop", "sustained_ratio"))
    dense = {
        dtype: gemm_curve(entry, sheet.peaks[dtype], sheet.bandwidth, sheet.multiprocessors, sustained=False)
        for dtype, entry in gemm.items()
    }
    return {
        "accelerator": name,
        "source": SOURCE,
        "licence": LICENCE,
        "datasheet": datasheet_entry(sheet),
        "gemm": gemm,
        "attention": attention_entries(own["attention"], sheet, droop, lasting),
        "attention_lent": {},
        "unfused_attention": UNFUSED,
        "experts": experts_entries(own["moe"], sheet, dense),
        "collectives": collectives_entries(own["collectives"]),
        "memory_bound": MEMORY_BOUND,
    }


SOURCE = "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4ca8e61b66ec108d86f223f8d559ce"


TABLE_NAMES = {"all_to_all": "alltoall"}


def collectives_entries(table: Sequence[Row]) -> dict[str, dict[str, Entry]]:
    """Fit every operation of one accelerator, as nccl-tests times them."""
    own = select(table, impl="nccl", dtype="fp16")
    operations = {}
    for operation in BUS_FACTOR:
        measured = select(own, op=TABLE_NAMES.get(operation, operation))
        if measured:
            operations[operation] = operation_entry(measured, operation)
    return {"nccl": operations} if operations else {}


def curve_files(tables: Tables) -> dict[str, Entry]:
    """Fit all curves of every accelerator, and lend head sizes where one has few."""
    files = {name: curve_file(name, sheet, tables) for name, sheet in DATASHEETS.items()}
    for name, lender in LENDERS.items():
        if name in files and lender in files:
            own, other = (_in_bf16(files[one]) for one in (name, lender))
            files[name]["attention_lent"] = {"bf16": lent_heads(own, other, lender)}
    return files


def _in_bf16(content: Entry) -> Sizes:
    attention = content["attention"]
    return attention.get("bf16", {}) if isinstance(attention, dict) else {}


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def rows(folder: Path, table: str) -> list[Row]:
    """Read one table.

    Raises
    ------
    InputError
        If it is not there.
    """
    path = folder / f"{table}.csv"
    if not path.is_file():
        raise InputError(Problem(str(folder), f"no {table}.csv", "a folder with the measured kernel tables"))
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
