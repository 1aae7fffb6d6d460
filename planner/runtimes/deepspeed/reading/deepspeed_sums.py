"""What DeepSpeed checks of its own file before it starts: a file that breaks one of these is a fault."""

from __future__ import annotations

from math import prod

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.imports.sums import is_set, number_of
from planner.units import is_whole


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
