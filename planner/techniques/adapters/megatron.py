"""Megatron-Bridge's, beside the joined products of Megatron-core."""

from planner.techniques.adapters.family import AdapterLibrary

ENTRY = AdapterLibrary(
    name="megatron",
    cite="Megatron-Bridge 067f987d: peft/lora.py and peft/utils.py, ParallelLinearAdapter",
)
