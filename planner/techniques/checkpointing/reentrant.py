"""A layer runs again whole: Megatron-core's, and PyTorch's where it is reentrant."""

from planner.techniques.checkpointing.family import Checkpointing

ENTRY = Checkpointing(
    name="reentrant",
    cite="PyTorch 2.13: torch/utils/checkpoint.py, CheckpointFunction; Megatron-LM d98e8a64: "
    "megatron/core/tensor_parallel/random.py, CheckpointFunction",
)
