"""What kinds of value Accelerate takes for the keys of its file.

References
----------
.. [1] Accelerate 1.15, accelerate/utils/dataclasses.py (``FullyShardedDataParallelPlugin``),
   accelerate/commands/config/config_args.py (no further keys), accelerate/utils/environment.py
   (``str_to_bool``).
"""

from __future__ import annotations

import re
from typing import Final

from planner.runtimes.imports.schemas import Kind, among, is_count, is_switch

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
    Kind(re.compile(r"compute_environment"), among(*PLACES), " or ".join(PLACES), null=False),
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
        among("allgather", "alltoall"),
        "allgather or alltoall",
        null=False,
    ),
)

LAUNCH_KEYS: Final = (
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config",
    "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16",
    "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm",
    "tpu_env", "dynamo_config", "fp16",
)  # fmt: skip
"""Keys of ``ClusterConfig``, which refuses others; ``fp16`` is an old one that it turns into another."""
