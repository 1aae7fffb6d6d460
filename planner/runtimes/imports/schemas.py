"""What kinds of value a runner takes for the keys of its file: another kind is a fault at its key.

References
----------
.. [1] DeepSpeed 0.19.8, deepspeed/runtime/zero/config.py and offload_config.py (pydantic, no further keys),
   deepspeed/runtime/precision_config.py, deepspeed/runtime/config_utils.py.
.. [2] Accelerate 1.15, accelerate/utils/dataclasses.py (``FullyShardedDataParallelPlugin``),
   accelerate/commands/config/config_args.py (no further keys), accelerate/utils/environment.py
   (``str_to_bool``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from planner.runtimes.imports.deepspeed_fields import is_count, is_switch
from planner.runtimes.imports.sheet import Sheet


class Kind(NamedTuple):
    """What a key takes."""

    keys: re.Pattern[str]
    """The keys."""
    holds: Callable[[Any], bool]
    """Whether a value will do."""
    expected: str
    """What will do, in words."""
    null: bool = True
    """Whether null may stand there, as if the key were not."""


def _fraction(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _scale(value: Any) -> bool:
    """Return whether DeepSpeed takes a value for a loss scale: a finite number of 0 or more."""
    if isinstance(value, bool):
        return False
    try:
        return 0 <= float(value) < float("inf")
    except (TypeError, ValueError):
        return False


def _among(*words: str) -> Callable[[Any], bool]:
    return lambda value: str(value) in words


ZERO: Final = r"zero_optimization\."
SWITCHES: Final = (
    r"expert_parallel\.enabled|wall_clock_breakdown|memory_breakdown|prescale_gradients|sparse_gradients"
)
COUNTS: Final = r"fp16\.(?:initial_scale_power|loss_scale_window|hysteresis|min_loss_scale)"
OFFLOADS: Final = ("none", "cpu", "nvme")
RATES: Final = ("LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
"""DeepSpeed, deepspeed/runtime/lr_schedules.py, ``VALID_LR_SCHEDULES``."""

TAGS: Final = ("WARN", "IGNORE", "FAIL")
"""DeepSpeed, deepspeed/runtime/constants.py, ``ValidationMode``."""

DEEPSPEED: Final = (
    Kind(
        re.compile(r"checkpoint\.tag_validation"),
        lambda value: str(value).upper() in TAGS,
        "Warn, Ignore or Fail",
    ),
    Kind(
        re.compile(r"checkpoint\.parallel_write\.pipeline_stage"),
        is_switch,
        "true or false",
    ),
    Kind(
        re.compile("wall_clock_breakdown|memory_breakdown"),
        lambda value: value is not None,
        "a value, or no such key",
        null=False,
    ),
    Kind(re.compile(SWITCHES), is_switch, "true or false"),
    Kind(re.compile(COUNTS), is_count, "a whole number, 0 or more"),
    Kind(re.compile(r"fp16\.loss_scale"), _scale, "a number, 0 or more; 0 is dynamic"),
    Kind(re.compile(rf"{ZERO}reduce_bucket_size"), lambda v: is_count(v) and float(v) > 0, "1 or more"),
    Kind(re.compile(rf"{ZERO}stage"), lambda v: is_count(v) and float(v) <= 3, "0, 1, 2 or 3"),
    Kind(re.compile(rf"{ZERO}offload_\w+\.device"), _among(*OFFLOADS), "none, cpu or nvme"),
    Kind(
        re.compile(rf"{ZERO}allgather_bucket_size"),
        lambda value: not is_count(value) or float(value) % 2 == 0,
        "an even number: its parts are aligned in pairs",
    ),
    Kind(re.compile(r"scheduler\.type"), _among(*RATES), ", ".join(RATES)),
    Kind(
        re.compile(r"elasticity\.enabled"),
        lambda value: not is_switch(value) or str(value).lower() in ("false", "no", "off", "0", "f", "n"),
        "false: newest releases refuse it, and older ones choose a batch of their own",
    ),
    Kind(re.compile(rf"{ZERO}offload_optimizer\.ratio"), _fraction, "0 to 1"),
    Kind(re.compile(r"gradient_predivide_factor"), lambda v: isinstance(v, int | float), "a number"),
    Kind(
        re.compile(r"data_types\.grad_accum_dtype"),
        _among("fp32", "fp16", "bf16", "bfp16", "bfloat16", "float", "float32", "float16", "half", "None"),
        "fp32, fp16 or bf16",
    ),
)

WRAPS: Final = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
STATES: Final = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")
SHARDINGS: Final = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
PREFETCHES: Final = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
PLACES: Final = ("LOCAL_MACHINE", "AMAZON_SAGEMAKER")
BACKENDS: Final = (
    "NO", "EAGER", "AOT_EAGER", "INDUCTOR", "AOT_TS_NVFUSER", "NVPRIMS_NVFUSER", "CUDAGRAPHS", "OFI",
    "FX2TRT", "ONNXRT", "TENSORRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE",
    "TVM", "HPU_BACKEND", "NEURON",
)  # fmt: skip
"""Accelerate, utils/dataclasses.py, ``DynamoBackend``, and the back ends of other releases."""

NULL_WORDS: Final = (
    r"num_processes|dynamo_config\.dynamo_mode|parallelism_config\.parallelism_config_\w+_(?:size|backend)"
    r"|fsdp_config\.fsdp_(?:version|reshard_after_forward|activation_checkpointing_offload)"
)
"""Keys whose null Accelerate hands on as the word None, and reads as a number or a name."""

ACCELERATE: Final = (
    Kind(re.compile(NULL_WORDS), lambda value: value is not None, "a value, or no such key", null=False),
    Kind(
        re.compile(
            r"fsdp_config\.fsdp_(?:offload_params|activation_checkpointing|cpu_ram_efficient_loading"
            r"|sync_module_states|use_orig_params|forward_prefetch)"
        ),
        lambda value: value is not None and is_switch(value),
        "true or false: null is read as the word none",
        null=False,
    ),
    Kind(
        re.compile(r"fsdp_config\.fsdp_backward_prefetch"),
        lambda value: str(value).upper() in (*PREFETCHES, "1", "2", "3"),
        ", ".join(PREFETCHES),
    ),
    Kind(re.compile(r"compute_environment"), _among(*PLACES), " or ".join(PLACES), null=False),
    Kind(re.compile(r"use_cpu"), is_switch, "true or false", null=False),
    Kind(
        re.compile(r"dynamo_config\.dynamo_backend"),
        lambda value: str(value).upper() in BACKENDS,
        ", ".join(BACKENDS),
    ),
    Kind(
        re.compile(r"fsdp_config\.fsdp_auto_wrap_policy"),
        lambda value: str(value).upper() in WRAPS,
        ", ".join(WRAPS),
    ),
    Kind(
        re.compile(r"fsdp_config\.fsdp_state_dict_type"),
        lambda value: str(value).upper() in (*STATES, "1", "2", "3"),
        ", ".join(STATES),
    ),
    Kind(
        re.compile(r"fsdp_config\.fsdp_sharding_strategy"),
        lambda value: str(value).upper() in (*SHARDINGS, "1", "2", "3", "4", "5"),
        ", ".join(SHARDINGS),
    ),
    Kind(
        re.compile(r"mixed_precision"),
        lambda value: str(value).lower() in ("no", "fp16", "bf16", "fp8", "false"),
        "no, fp16, bf16 or fp8",
    ),
    Kind(re.compile(r"num_machines"), is_count, "a whole number", null=False),
    Kind(re.compile(r"machine_rank|main_process_port"), is_count, "a whole number"),
    Kind(
        re.compile(r"parallelism_config\.parallelism_config_cp_comm_strategy"),
        _among("allgather", "alltoall"),
        "allgather or alltoall",
        null=False,
    ),
)


def check_kinds(sheet: Sheet, kinds: Iterable[Kind]) -> None:
    """Note a fault for each value that its key does not take; ``auto`` is left to the trainer."""
    for kind in kinds:
        for key, value in sheet.values.items():
            if (value is None and kind.null) or value == "auto" or not kind.keys.fullmatch(key):
                continue
            if not kind.holds(value):
                sheet.fault(key, "null" if value is None else repr(value), kind.expected)


def check_closed(sheet: Sheet, sections: str, known: Iterable[str]) -> None:
    """Note a fault for each key of a section that takes no further ones.

    ``sections``: what the keys of the section start with; ``known``: the names that it has.
    """
    names = set(known)
    for key in sheet.values:
        name = key.removeprefix(sections).partition(".")[0]
        if key.startswith(sections) and name not in names:
            sheet.fault(f"{sections}{name}", "no key of it", "one that the runner has")


LAUNCH_KEYS: Final = (
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config",
    "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16",
    "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm",
    "tpu_env", "dynamo_config", "fp16",
)  # fmt: skip
"""Keys of ``ClusterConfig``, which refuses others; ``fp16`` is an old one that it turns into another."""
