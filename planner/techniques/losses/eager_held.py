"""PyTorch's, whose buffers outlive the first layer's backward: so the memory of torchtitan's runs of 2024."""

from dataclasses import replace

from planner.techniques.losses import eager

ENTRY = replace(
    eager.ENTRY,
    name="eager-held",
    cite="torchtitan 1ea476e9: train.py, the loop of steps",
    split_bytes=4.0,
    beside_backward=True,
)
