"""All curves of one accelerator, by data type and head size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.formulas.attention import AttentionCurve
from planner.formulas.experts import ExpertCurve
from planner.formulas.gemm import GemmCurve
from planner.formulas.unfused_attention import UnfusedAttention


@dataclass(frozen=True)
class Kernels:
    """What the kernels of one accelerator reach, resolved to base units.

    Parameters
    ----------
    gemm : mapping
        Matrix products by dtype: ``bf16``, ``fp16``, ``fp8`` ...
    attention : mapping
        Fused attention by head size.
    experts : mapping
        Grouped products by dtype.
    unfused, fused_softmax : UnfusedAttention
        Attention through a matrix of scores, with a chain of kernels or one between the products.
    memory_bandwidth : float
        Rate that memory-bound kernels reach. [byte/s]
    launch : float
        Time of an empty kernel. [s]
    """

    gemm: Mapping[str, GemmCurve]
    attention: Mapping[int, AttentionCurve]
    experts: Mapping[str, ExpertCurve]
    unfused: UnfusedAttention
    fused_softmax: UnfusedAttention
    memory_bandwidth: float
    launch: float

    def attention_for(self, head_dim: int) -> AttentionCurve:
        """Return the curve of the head size nearest to ``head_dim``."""
        return self.attention[min(self.attention, key=lambda size: (abs(size - head_dim), size))]
