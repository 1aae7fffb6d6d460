"""What a runner checks of its own file before it starts: a file that breaks one of these is a fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from planner.errors import Problem
from planner.runtimes._imports._sheet import Imported, Sheet

KINDS: Final = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM",
)  # fmt: skip
"""Accelerate 1.15, ``accelerate/utils/dataclasses.py``, ``DistributedType``."""

STRATEGIES_2: Final = ("TRUE", "FALSE")
OLD_DEGREES: Final = {
    "data_parallel_degree": "dp",
    "data_parallel_replicate_degree": "dp",
    "data_parallel_shard_degree": "zero_shards",
    "tensor_parallel_degree": "tp",
    "context_parallel_degree": "cp",
    "pipeline_parallel_degree": "pp",
}
"""Degrees of torchtitan's job configs of 2024 and the options that say them."""

RESHARD: Final = ("default", "always", "never")


def _set(sheet: Sheet, key: str) -> bool:
    """Return whether a switch is on, without counting it as understood."""
    value = sheet.values.get(key)
    return value is not None and str(value).lower() not in ("false", "0", "no", "auto")


def _number(sheet: Sheet, key: str) -> int | None:
    """Return a whole number, or None where there is none."""
    text = str(sheet.values.get(key)).strip()
    return int(text) if text.lstrip("-").isdigit() and len(text) <= 18 else None


def deepspeed_sums(sheet: Sheet) -> None:
    """What DeepSpeed's ``_batch_assertion`` and ``_do_error_check`` do (deepspeed/runtime/config.py)."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    batch, micro, steps = (_number(sheet, name) for name in names)
    for name, size in zip(names, (batch, micro, steps), strict=True):
        if size is not None and size < 1:
            sheet.fault(name, str(size), "1 or more")
    whole = (micro or 1) * (steps or 1)
    if batch and whole > 0 and batch % whole:
        sheet.fault(names[0], str(batch), f"a multiple of micro-batch x accumulation ({whole})")
    if _set(sheet, "fp16.enabled") and (_set(sheet, "bf16.enabled") or _set(sheet, "bfloat16.enabled")):
        sheet.fault("fp16.enabled", "fp16 and bf16 both enabled", "one of them")
    kind = sheet.values.get("communication_data_type")
    if kind is not None and str(kind).lower() not in ("fp16", "bf16", "bfp16", "fp32"):
        sheet.fault("communication_data_type", repr(str(kind)), "fp16, bf16 or fp32")
    masters = "bf16.bf16_master_weights_and_grads"
    if _set(sheet, masters) and not _number(sheet, "zero_optimization.stage"):
        sheet.fault(masters, "on without ZeRO", "a zero_optimization.stage of 1 or more")


def deepspeed_world(found: Imported, where: str) -> Imported:
    """Return what was found, with a fault where the batch is no product over the replicas that start."""
    names = ("global_batch", "micro_batch", "accumulation", "gpus")
    if not all(found.options.get(name, "").isdigit() for name in names):
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
    processes, machines = _number(sheet, "num_processes"), _number(sheet, "num_machines")
    if processes and machines is not None and (machines < 1 or processes % machines):
        sheet.fault("num_machines", str(machines), f"a divisor of num_processes ({processes})")
    prefix = "parallelism_config.parallelism_config"
    sizes = {
        name: _number(sheet, f"{prefix}_{name}_size")
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
    if kind == "FSDP" and _set(sheet, lean) and sheet.values.get(sync) is not None and not _set(sheet, sync):
        sheet.fault(sync, "false with fsdp_cpu_ram_efficient_loading", "true")
    version = sheet.values.get("fsdp_config.fsdp_version")
    if kind == "FSDP" and version is not None and str(version) not in ("1", "2"):
        sheet.fault("fsdp_config.fsdp_version", str(version), "1 or 2")
    again = sheet.values.get("fsdp_config.fsdp_reshard_after_forward")
    if (
        kind == "FSDP"
        and str(version) == "2"
        and again is not None
        and str(again).upper() not in STRATEGIES_2
    ):
        key = "fsdp_config.fsdp_reshard_after_forward"
        sheet.fault(key, repr(str(again)), "true or false under fsdp_version 2")


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


def megatron_sums(sheet: Sheet, record: Mapping[str, Any] | None) -> None:
    """Check what ``validate_args`` and ``TransformerConfig`` of Megatron-LM assert."""
    _full(sheet)
    _pairs(sheet)
    pp = _number(sheet, "--pipeline-model-parallel-size") or 1
    if _on(sheet, "--use-torch-fsdp2") and pp > 1:
        sheet.fault("--use-torch-fsdp2", f"with pipeline {pp}", "no pipeline parallelism")
    length, most = _number(sheet, "--seq-length"), _number(sheet, "--max-position-embeddings")
    if length and most and length > most:
        sheet.fault("--seq-length", str(length), f"at most --max-position-embeddings ({most})")
    per = "--num-layers-per-virtual-pipeline-stage"
    if pp == 1 and _number(sheet, per):
        sheet.fault(per, "without pipeline stages", "--pipeline-model-parallel-size 2 or more")
    if record is not None and pp > 1:
        _layers(sheet, len(record["layers"]), pp)


def _on(sheet: Sheet, key: str) -> bool:
    """Return whether a flag is given."""
    return _set(sheet, key) or sheet.values.get(key) == ""


def _full(sheet: Sheet) -> None:
    """Check that full recompute says how."""
    if sheet.values.get("--recompute-granularity") == "full":
        if sheet.values.get("--recompute-method") not in ("uniform", "block"):
            sheet.fault(
                "--recompute-granularity", "full without a method", "--recompute-method uniform or block"
            )
        elif sheet.values.get("--recompute-num-layers") is None:
            sheet.fault("--recompute-granularity", "full without a number", "--recompute-num-layers N")


def _pairs(sheet: Sheet) -> None:
    """Check flags that exclude or need each other."""
    if _on(sheet, "--fp16") and _on(sheet, "--bf16"):
        sheet.fault("--fp16", "--fp16 and --bf16 both given", "one of them")
    if _on(sheet, "--overlap-param-gather") and not _on(sheet, "--overlap-grad-reduce"):
        sheet.fault("--overlap-param-gather", "alone", "--overlap-grad-reduce with it")
    if _on(sheet, "--multi-latent-attention") and _on(sheet, "--group-query-attention"):
        sheet.fault("--group-query-attention", "with --multi-latent-attention", "one of them")


def _layers(sheet: Sheet, layers: int, pp: int) -> None:
    """Check that layers divide over stages and virtual stages, where no layout cuts them."""
    first, last = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
    per, chunks = "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"
    if sheet.values.get("--pipeline-model-parallel-layout") is not None:
        return
    ends = [_number(sheet, key) for key in (first, last)]
    said = [count for count in ends if count is not None]
    extra = sum(
        key in sheet.values
        for key in ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
    )
    rest, middle = layers + extra - sum(said), pp - len(said)
    if rest < 0 or (middle and rest % middle) or (not middle and rest):
        sheet.fault(
            "--pipeline-model-parallel-size", str(pp), f"stages that divide {rest} layers, or a layout"
        )
        return
    share, size, count = rest // middle if middle else 0, _number(sheet, per), _number(sheet, chunks)
    if size is not None and (said or size < 1 or share % size):
        sheet.fault(per, str(size), "a divisor of the layers of a stage, without first or last stages")
    if count is not None and (count < 1 or any(part % count for part in (share, *said))):
        sheet.fault(chunks, str(count), "a divisor of the layers of every stage")


def torchtitan_sums(sheet: Sheet) -> None:
    """Check the values that torchtitan's job config allows."""
    again = sheet.values.get("parallelism.fsdp_reshard_after_forward")
    if again is not None and str(again) not in RESHARD:
        sheet.fault("parallelism.fsdp_reshard_after_forward", repr(str(again)), ", ".join(RESHARD))
    reduced = sheet.values.get("training.mixed_precision_reduce")
    if reduced is not None and str(reduced) != "float32":
        sheet.fault("training.mixed_precision_reduce", repr(str(reduced)), "float32")
    for key, option in OLD_DEGREES.items():
        for old in (f"training.{key}", f"experimental.{key}"):
            if (size := _number(sheet, old)) not in (None, 1, -1):
                flag = f"--{option.replace('_', '-')}"
                sheet.fault(old, str(size), f"parallelism.{key}, or {flag} on the command line")
                sheet.instead[old] = option
    length = _number(sheet, "training.max_context_length") or _number(sheet, "training.seq_len")
    tokens = _number(sheet, "training.num_tokens_per_microbatch_per_dp_rank")
    whole, passes = (
        _number(sheet, "training.num_tokens_per_train_step"),
        _number(sheet, "parallelism.num_pp_microbatches"),
    )
    replicas = sheet.options.get("dp")
    if tokens and length and tokens % length:
        key = "training.num_tokens_per_microbatch_per_dp_rank"
        sheet.fault(key, str(tokens), f"a multiple of the sequence length ({length})")
    step = (tokens or 1) * (int(replicas) if replicas and replicas.isdigit() else 1) * (passes or 1)
    if tokens and whole and whole > 0 and step > 0 and whole % step:
        sheet.fault("training.num_tokens_per_train_step", str(whole), f"a multiple of {step} tokens")
