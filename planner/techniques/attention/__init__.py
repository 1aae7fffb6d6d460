"""Attention kernels: what computes the core of attention on the device, by name."""

from planner.registry import load_family
from planner.techniques.attention.family import AttentionKernel

ATTENTION_KERNELS = load_family(__name__, AttentionKernel)

__all__ = ["ATTENTION_KERNELS", "AttentionKernel"]
