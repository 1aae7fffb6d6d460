"""Tensor and sequence parallelism."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.tensor import TENSOR_LIBRARIES


@dataclass(frozen=True)
class TensorTraits:
    """Tensor and sequence parallelism."""

    library: str = trait(
        "megatron",
        "Whose layers cut products and the sequence: what they keep whole, and in how many bits they gather.",
        name="tensor_library",
        words=TENSOR_LIBRARIES,
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
    switch_reductions: bool = trait(
        False,
        "Whether all-reduces of tensor parallelism are added up in NVLink's switches, as NCCL does unless "
        "NCCL_NVLS_ENABLE is 0.",
    )
    hop_seconds: float = trait(
        0.0,
        "Latency of a ring pass of a tensor-parallel collective for each doubling of its nodes, beside the "
        "network's: that of a tree.",
        unit="s",
        name="tensor_hop_seconds",
    )
