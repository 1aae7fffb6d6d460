"""Megatron's split of products, whose gathered inputs are kept whole for backward."""

from dataclasses import replace

from planner.techniques.tensor import megatron

ENTRY = replace(
    megatron.ENTRY,
    name="whole-inputs",
    cite="https://github.com/Aleph-Alpha/scaling: core/nn/linear",
    regathers=False,
)
