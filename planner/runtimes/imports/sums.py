"""What a runner checks of its own file before it starts: a file that breaks one of these is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.torchtitan.table import DEGREES, REPLICAS, SHARDS
from planner.units import is_whole

KINDS: Final = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM",
)  # fmt: skip
"""Accelerate 1.15, ``accelerate/utils/dataclasses.py``, ``DistributedType``."""

STRATEGIES_2: Final = ("TRUE", "FALSE")
OLD_DEGREES: Final = {
    "data_parallel_degree": "dp",
    REPLICAS: "dp",
    SHARDS: "zero_shards",
    **{DEGREES[option]: option for option in ("tp", "cp", "pp")},
}
"""Degrees of torchtitan's job configs of 2024 and the options that say them."""

RESHARD: Final = ("default", "always", "never")


def is_set(sheet: Sheet, key: str) -> bool:
    """Return whether a switch is on, without counting it as understood."""
    value = sheet.values.get(key)
    return value is not None and str(value).lower() not in ("false", "0", "no", "auto")


def number_of(sheet: Sheet, key: str) -> int | None:
    """Return a whole number, or None where there is none."""
    text = str(sheet.values.get(key)).strip()
    return int(text) if is_whole(text.lstrip("-")) and len(text) <= 18 else None


def deepspeed_sums(sheet: Sheet) -> None:
    """What DeepSpeed's ``_batch_assertion`` and ``_do_error_check`` do (deepspeed/runtime/config.py)."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    batch, micro, steps = (number_of(sheet, name) for name in names)
    for name, size in zip(names, (batch, micro, steps), strict=True):
        if size is not None and size < 1:
            sheet.fault(name, str(size), "1 or more")
    whole = (micro or 1) * (steps or 1)
    if batch and whole > 0 and batch % whole:
        sheet.fault(names[0], str(batch), f"a multiple of micro-batch x accumulation ({whole})")
    if is_set(sheet, "fp16.enabled") and (is_set(sheet, "bf16.enabled") or is_set(sheet, "bfloat16.enabled")):
        sheet.fault("fp16.enabled", "fp16 and bf16 both enabled", "one of them")
    kind = sheet.values.get("communication_data_type")
    if kind is not None and str(kind).lower() not in ("fp16", "bf16", "bfp16", "fp32"):
        sheet.fault("communication_data_type", repr(str(kind)), "fp16, bf16 or fp32")
    masters = "bf16.bf16_master_weights_and_grads"
    stage = number_of(sheet, "zero_optimization.stage") or 0
    if is_set(sheet, masters) and not stage:
        sheet.fault(masters, "on without ZeRO", "a zero_optimization.stage of 1 or more")
    states = is_set(sheet, "bf16.bf16_optimizer_states")
    hosted = sheet.values.get("zero_optimization.offload_optimizer.device") in ("cpu", "nvme")
    if is_set(sheet, masters) and stage and not states and not hosted:
        sheet.fault(masters, "with float32 states on the device", "bf16_optimizer_states too, or offload")
    if states and not is_set(sheet, masters):
        sheet.fault("bf16.bf16_optimizer_states", f"without {masters}", "both")
    _disks(sheet)
    scattered = str(sheet.values.get("zero_optimization.reduce_scatter", True)).lower() == "true"
    if stage == 2 and scattered and is_set(sheet, "prescale_gradients"):
        sheet.fault("prescale_gradients", "with ZeRO-2's reduce scatter", "false")


def _disks(sheet: Sheet) -> None:
    """Check that what rests on a disk has a folder there (deepspeed/runtime/swap_tensor)."""
    for part in ("param", "optimizer"):
        place = f"zero_optimization.offload_{part}"
        if sheet.values.get(f"{place}.device") == "nvme" and sheet.values.get(f"{place}.nvme_path") is None:
            sheet.fault(f"{place}.nvme_path", "nothing with device nvme", "the folder on the disk")


def deepspeed_world(found: Imported, where: str) -> Imported:
    """Return what was found, with a fault where the batch is no product over the replicas that start."""
    names = ("global_batch", "micro_batch", "accumulation", "gpus")
    if not all(is_whole(found.options.get(name, "")) for name in names):
        return found
    batch, micro, steps, gpus = (int(found.options[name]) for name in names)
    replicas = gpus // max(1, prod(int(found.options.get(name, "1")) for name in ("tp", "cp", "pp")))
    if batch == micro * steps * replicas:
        return found
    expected = (
        f"{micro * steps * replicas} (micro-batch {micro} x accumulation {steps} x {replicas} replicas)"
    )
    fault = Problem(f"{where}: train_batch_size", str(batch), expected)
    return replace(found, faults=(*found.faults, ("global_batch", fault)))


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
