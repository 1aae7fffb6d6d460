"""Saved tensors of N layers of each stage: down in forward, up in backward, beside the compute."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(
    name="activations",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/d0067d0d/transformer_engine/pytorch/cpu_offload.py",
    states="device",
    down_bytes=0.0,
    up_bytes=0.0,
    counted=True,
)
