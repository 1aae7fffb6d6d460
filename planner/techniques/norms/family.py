"""What an implementation of a norm joins, casts and keeps."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class NormCode:
    """Whose code runs norms; whether one is a single kernel is a runtime's trait ``fused_norm``."""

    name: str
    """As in ``--set norms=NAME``."""
    cite: str
    """Where it was read."""
    unfused_norm_bytes: float = 4.0
    """Bytes of an element that one of several kernels keeps besides: an fp32 copy of its input; 6 where the
    normalised element too stays in fp32, in place of 16 bit, to be multiplied by the weight. A runtime's
    trait of that name starts from it. [byte]"""
    in_product: bool = False
    """Whether the norm before a product of attention or of a dense feed-forward is part of that product's
    layer, so that recompute of norms does not reach it."""
    chains_layer_norm: bool = False
    """Whether a layer norm is a chain of kernels of a model's own code, not PyTorch's one."""
    chains_head_norms: bool = False
    """Whether norms of queries and keys are a chain of kernels in fp32 of a model's own code."""
    reads_fp32: bool = False
    """Whether one kernel reads a copy of its input that was cast to fp32, and keeps it in its place."""
    aliases: tuple[str, ...] = ()
    """Other names."""
