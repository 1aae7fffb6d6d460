"""Keys of a DeepSpeed JSON that stand for one option or trait each: written into it, read by ``--from``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes.keys import FileKey

ZERO: Final = "zero_optimization"
"""The section of ZeRO."""

OPTIONS: Final[Mapping[str, FileKey]] = {
    "global_batch": FileKey("train_batch_size"),
    "micro_batch": FileKey("train_micro_batch_size_per_gpu"),
    "accumulation": FileKey("gradient_accumulation_steps"),
    "tp": FileKey("tensor_parallel.autotp_size"),
    "ep": FileKey("expert_parallel.autoep_size"),
    "cp": FileKey("sequence_parallel_size"),
    "zero": FileKey(f"{ZERO}.stage"),
    "gradient_dtype": FileKey("data_types.grad_accum_dtype"),
}
"""The key of each option."""

EXPERTS: Final = "expert_parallel.enabled"
"""Key without which the degree of expert parallelism says nothing."""

PRECISIONS: Final = {"bf16": "bf16.enabled", "fp16": "fp16.enabled"}
"""The switch of each precision; without any it is fp32."""

SIZES: Final[Mapping[str, FileKey]] = {
    "bucket_elements": FileKey(f"{ZERO}.reduce_bucket_size"),
    "prefetch_elements": FileKey(f"{ZERO}.stage3_prefetch_bucket_size"),
    "live_elements": FileKey(f"{ZERO}.stage3_max_live_parameters"),
    "reuse_elements": FileKey(f"{ZERO}.stage3_max_reuse_distance"),
}
"""The key of each trait that is a size of ZeRO's buffers; stage 3 alone has all but the first. [element]"""

ELEMENTS: Final = {
    "bucket_elements": 5e8,
    "prefetch_elements": 5e7,
    "live_elements": 1e9,
    "reuse_elements": 1e9,
}
"""DeepSpeed's own values of these. [element]"""

SWITCHES: Final[Mapping[str, FileKey]] = {
    "quantised_gathers": FileKey(f"{ZERO}.zero_quantized_weights"),
    "quantised_reductions": FileKey(f"{ZERO}.zero_quantized_gradients"),
}
"""The key of each trait of ZeRO++ that is a switch; below ZeRO-3 they do nothing."""

SECONDARY: Final = FileKey(f"{ZERO}.zero_hpz_partition_size")
"""The ranks that share a second copy of the weights (trait ``secondary_shards``)."""

OVERLAP: Final = FileKey(f"{ZERO}.overlap_comm")
"""The setting ``overlap_comm``: traits ``dp_exposed`` and ``flat_buckets``."""

REDUCED: Final = FileKey("communication_data_type")
"""The trait ``reduce_dtype``."""

HOST_CHECKPOINTS: Final = FileKey("activation_checkpointing.cpu_checkpointing")
"""The trait ``host_checkpoints``."""
