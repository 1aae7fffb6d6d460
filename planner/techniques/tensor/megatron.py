"""Megatron-core's layers: inputs stay sharded along the sequence, and are gathered again in backward."""

from planner.techniques.tensor.family import TensorLibrary

ENTRY = TensorLibrary(
    name="megatron",
    cite="arXiv:2205.05198, sec. 4.2.2; Megatron-LM d98e8a64: megatron/core/tensor_parallel/layers.py; "
    "Transformer Engine d0067d0d: transformer_engine/pytorch/module/base.py",
)
