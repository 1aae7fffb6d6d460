"""All curves of one accelerator, by data type and head size."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from planner.dataclasses import dataclass, field
from planner.formulas.attention import AttentionCurve, curve_between
from planner.formulas.experts import ExpertCurve
from planner.formulas.gemm import GemmCurve
from planner.formulas.unfused_attention import UnfusedAttention

STREAMS: Final = {
    "norm": "norm",
    "residual": "residual",
    "rotary": "rotary",
    "activation": "gated",
    "loss": "loss",
    "embedding": "copy",
    "permute": "copy",
    "optimizer": "adam",
}
"""Words in the names of memory-bound operators, each with the measured kernel that tells its rate."""


@dataclass(frozen=True)
class Stream:
    """What memory-bound kernels of one kind reach.

    Parameters
    ----------
    bandwidth : float
        Rate at which they move bytes. [byte/s]
    launch : float
        Time of an empty one. [s]
    measured : bool
        Whether kernels of that kind were measured, whatever slows them included.
    """

    bandwidth: float
    launch: float
    measured: bool = True


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
        Rate that memory-bound kernels reach, all kinds together. [byte/s]
    launch : float
        Time of an empty kernel. [s]
    streams : mapping
        Memory-bound kernels of one kind (`STREAMS`), where they were measured by themselves.
    borrowed : bool
        Whether they are those of another accelerator.
    """

    gemm: Mapping[str, GemmCurve]
    attention: Mapping[int, AttentionCurve]
    experts: Mapping[str, ExpertCurve]
    unfused: UnfusedAttention
    fused_softmax: UnfusedAttention
    memory_bandwidth: float
    launch: float
    streams: Mapping[str, Stream] = field(default_factory=dict)
    borrowed: bool = False

    def attention_for(self, head_dim: int) -> AttentionCurve:
        """Return the curve of a head size, or one between its neighbours'; the widest holds beyond."""
        if head_dim in self.attention:
            return self.attention[head_dim]
        sizes = sorted(self.attention)
        if len(sizes) == 1 or head_dim > sizes[-1]:
            return self.attention[sizes[-1]]
        above = max(bisect(sizes, head_dim), 1)
        narrow, wide = ((float(size), self.attention[size]) for size in sizes[above - 1 : above + 1])
        return curve_between(head_dim, narrow, wide)

    def stream_for(self, name: str, kernel: str = "") -> Stream:
        """Return what a memory-bound operator reaches: by its own kind, or by all kinds together.

        Parameters
        ----------
        name : str
            Of the operator.
        kernel : str
            The measured kernel that it runs like, where its name does not tell.
        """
        if (name, kernel) not in self._found:
            kind = kernel or next((kernel for word, kernel in STREAMS.items() if word in name), "")
            self._found[name, kernel] = self.streams.get(kind) or Stream(
                self.memory_bandwidth, self.launch, measured=False
            )
        return self._found[name, kernel]

    @cached_property
    def _found(self) -> dict[tuple[str, str], Stream]:
        """What was found for operators, by name and kernel."""
        return {}
