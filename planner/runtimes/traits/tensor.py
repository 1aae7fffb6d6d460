"""Tensor and sequence parallelism."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class TensorTraits:
    """Tensor and sequence parallelism."""

    sequence_regather: bool = trait(
        True,
        "Whether sequence parallelism keeps inputs sharded and gathers them again in backward; if not, they "
        "are kept whole.",
    )
    told_reductions: bool = trait(
        False,
        "Whether the bytes of tensor parallelism hold those of small reductions, whose time is not priced: "
        "three numbers of each token in a loss over divided logits, and gradients of norms that are split "
        "along the sequence (PyTorch's DTensor).",
    )
    bandwidth_share: float = trait(
        0.75,
        "Share of nccl-tests bandwidth that tensor-parallel collectives reach.",
        unit="-",
        name="tp_bandwidth_share",
        above_zero=True,
        up_to=1.0,
    )
    message_multiprocessors: float = trait(
        0.0,
        "Multiprocessors that products leave to the tensor-parallel messages that they hide.",
        unit="-",
    )
    exposed: float = trait(
        1.0,
        "Share of tensor-parallel messages that no compute hides.",
        unit="-",
        name="tp_exposed",
        up_to=1.0,
    )
    hop_seconds: float = trait(
        0.0,
        "Latency of a ring pass of a tensor-parallel collective for each doubling of its nodes, beside the "
        "network's: that of a tree.",
        unit="s",
        name="tensor_hop_seconds",
    )
