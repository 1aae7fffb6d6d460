"""Megatron's split in PyTorch's own products: as its layers, but for gathers, which are in 16 bits."""

from dataclasses import replace

from planner.techniques.tensor import megatron

ENTRY = replace(
    megatron.ENTRY,
    name="plain",
    cite="nanotron 2411b022: parallel/tensor_parallel/functional.py; "
    "DeepSpeed 0.19.8: module_inject/layers.py",
    low_bit_gathers=False,
)
