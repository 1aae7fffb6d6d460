"""What torchtitan checks of its own file before it starts: a file that breaks one of these is a fault."""

from __future__ import annotations

from typing import Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.sums import number_of
from planner.runtimes.torchtitan.table import DEGREES, REPLICAS, SHARDS
from planner.units import is_whole

OLD_DEGREES: Final = {
    "data_parallel_degree": "dp",
    REPLICAS: "dp",
    SHARDS: "zero_shards",
    **{DEGREES[option]: option for option in ("tp", "cp", "pp")},
}
"""Degrees of torchtitan's job configs of 2024 and the options that say them."""

RESHARD: Final = ("default", "always", "never")


def literal_sums(sheet: Sheet) -> None:
    """Check words that torchtitan's job config takes."""
    again = sheet.values.get("parallelism.fsdp_reshard_after_forward")
    if again is not None and str(again) not in RESHARD:
        sheet.fault("parallelism.fsdp_reshard_after_forward", repr(str(again)), ", ".join(RESHARD))
    reduced = sheet.values.get("training.mixed_precision_reduce")
    if reduced is not None and str(reduced) != "float32":
        sheet.fault("training.mixed_precision_reduce", repr(str(reduced)), "float32")
        sheet.instead["training.mixed_precision_reduce"] = "gradient_dtype"


def torchtitan_sums(sheet: Sheet) -> None:
    """Check the values that torchtitan's job config allows."""
    literal_sums(sheet)
    for key, option in OLD_DEGREES.items():
        for old in (f"training.{key}", f"experimental.{key}"):
            if (size := number_of(sheet, old)) not in (None, 1, -1):
                flag = f"--{option.replace('_', '-')}"
                sheet.fault(old, str(size), f"parallelism.{key}, or {flag} on the command line")
                sheet.instead[old] = option
    length = number_of(sheet, "training.max_context_length") or number_of(sheet, "training.seq_len")
    tokens = number_of(sheet, "training.num_tokens_per_microbatch_per_dp_rank")
    whole, passes = (
        number_of(sheet, "training.num_tokens_per_train_step"),
        number_of(sheet, "parallelism.num_pp_microbatches"),
    )
    replicas = sheet.options.get("dp")
    if tokens and length and tokens % length:
        key = "training.num_tokens_per_microbatch_per_dp_rank"
        sheet.fault(key, str(tokens), f"a multiple of the sequence length ({length})")
    step = (tokens or 1) * (int(replicas) if replicas and is_whole(replicas) else 1) * (passes or 1)
    if tokens and whole and whole > 0 and step > 0 and whole % step:
        sheet.fault("training.num_tokens_per_train_step", str(whole), f"a multiple of {step} tokens")
    elif tokens and whole and step and whole > step and sheet.options.get("pp", "1") != "1":
        key, times = "parallelism.num_pp_microbatches", whole // step
        sheet.instead[key] = "global_batch"
        found = f"{passes or 1}, so {times} pipelines in each step, each filled and emptied"
        sheet.fault(key, found, f"all {times * (passes or 1)} micro-batches of a step")
