"""What Accelerate checks of its own file before it starts: a file that breaks one of these is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.sums import is_set, number_of

KINDS: Final = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM",
)  # fmt: skip
"""Accelerate 1.15, ``accelerate/utils/dataclasses.py``, ``DistributedType``."""

STRATEGIES_2: Final = ("TRUE", "FALSE")


def accelerate_sums(sheet: Sheet) -> None:
    """Check what Accelerate checks: ``DistributedType``, ``ParallelismConfig`` and FSDP's plugin."""
    kind = str(sheet.values.get("distributed_type") or "").upper()
    if kind not in KINDS:
        sheet.fault("distributed_type", repr(kind), f"one of {', '.join(KINDS)}")
    processes, machines = number_of(sheet, "num_processes"), number_of(sheet, "num_machines")
    if processes and machines is not None and (machines < 1 or processes % machines):
        sheet.fault("num_machines", str(machines), f"a divisor of num_processes ({processes})")
    if (machines or 1) > 1 and sheet.values.get("machine_rank", 0) is None:
        sheet.fault("machine_rank", "null with several machines", "the rank of the machine")
    prefix = "parallelism_config.parallelism_config"
    sizes = {
        name: number_of(sheet, f"{prefix}_{name}_size")
        for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    }
    said = {name: size for name, size in sizes.items() if size is not None}
    for name, size in said.items():
        if size < 1:
            sheet.fault(f"{prefix}_{name}_size", str(size), "1 or more")
    product = prod(said.values())
    _both(sheet, {name: size or 1 for name, size in sizes.items()}, prefix)
    ulysses = (sizes["sp"] or 1) > 1
    if said and processes and product > 1 and product != processes and not ulysses:
        shown = " x ".join(f"{name} {size}" for name, size in said.items())
        sheet.fault(
            "num_processes", str(processes), f"the product of parallelism_config ({shown} = {product})"
        )
    lean, sync = "fsdp_config.fsdp_cpu_ram_efficient_loading", "fsdp_config.fsdp_sync_module_states"
    loads = is_set(sheet, lean) or lean not in sheet.values
    if kind == "FSDP" and loads and sync in sheet.values and not is_set(sheet, sync):
        sheet.fault(sync, "false with fsdp_cpu_ram_efficient_loading, which is on unless said", "true")
    if kind == "FSDP":
        _version(sheet, product)
    version = sheet.values.get("fsdp_config.fsdp_version")
    again = sheet.values.get("fsdp_config.fsdp_reshard_after_forward")
    if (
        kind == "FSDP"
        and str(version) == "2"
        and again is not None
        and str(again).upper() not in STRATEGIES_2
    ):
        key = "fsdp_config.fsdp_reshard_after_forward"
        sheet.fault(key, repr(str(again)), "true or false under fsdp_version 2")


FLAT: Final = ("engine=fsdp1",)
"""What FSDP 1 is, Accelerate's own where no version is said (utils/dataclasses.py, ``fsdp_version``)."""


def _version(sheet: Sheet, ranks: int) -> None:
    """Check FSDP's version, which must be 2 beside a mesh of several ranks."""
    version = sheet.values.get("fsdp_config.fsdp_version")
    if version is not None and str(version) not in ("1", "2"):
        sheet.fault("fsdp_config.fsdp_version", str(version), "1 or 2")
    if version is None and ranks > 1:
        sheet.notes.append(
            "no fsdp_version: Accelerate's own is 1, which refuses parallelism_config; priced as 2"
        )
    elif str(version) == "1" and ranks > 1:
        found = "1 with parallelism_config"
        sheet.fault("fsdp_config.fsdp_version", found, "2, which alone goes with parallelism_config")
    elif str(version or 1) == "1":
        sheet.changes += FLAT


def _both(sheet: Sheet, sizes: Mapping[str, int], prefix: str) -> None:
    """Check degrees that exclude each other (``ParallelismConfig.__post_init__``, Accelerate 1.15).

    Its ``_validate_accelerator`` multiplies the sizes to the processes, but not under Ulysses, whose groups
    DeepSpeed makes of all processes.
    """
    if sizes["cp"] > 1 and sizes["sp"] > 1:
        sheet.fault(f"{prefix}_sp_size", str(sizes["sp"]), f"1 beside cp_size {sizes['cp']}")
    if max(sizes["tp"], sizes["cp"]) > 1 and sizes["dp_replicate"] > 1 and sizes["dp_shard"] == 1:
        expected = "dp_shard_size above 1 beside tp_size or cp_size"
        sheet.fault(f"{prefix}_dp_replicate_size", str(sizes["dp_replicate"]), expected)
