"""Weights and gradients on a rank, and the optimizer's step."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.inputs.workload import DTYPE_BYTES
from planner.runtimes.traits.trait import trait
from planner.techniques.optimizer_steps import OPTIMIZER_STEPS


@dataclass(frozen=True)
class StateTraits:
    """Weights and gradients on a rank, and the optimizer's step."""

    parameter_dtype: str = trait(
        "bf16",
        "Dtype of weights at rest; fp32 where they are their own master copy, and cast when gathered.",
        words=tuple(DTYPE_BYTES),
    )
    gradient_dtype: str = trait(
        "fp32",
        "Dtype in which gradients are kept between micro-batches.",
        words=tuple(DTYPE_BYTES),
    )
    gradient_copy_bytes: float = trait(
        0.0,
        "Bytes of each gradient in a further dtype, kept beside those of ``gradient_dtype``.",
        unit="byte",
    )
    after_others: bool = trait(
        False,
        "Whether what counts as a step is the last of several passes whose gradients are summed, as some "
        "programs print it: gradients of those before are there.",
    )
    reduce_dtype: str = trait(
        "fp32",
        "Dtype in which gradients travel.",
        words=tuple(DTYPE_BYTES),
    )
    whole_matrices: Literal["gathered", "owned", "dealt"] = trait(
        "gathered",
        "How ranks that share states see whole matrices, where the optimizer needs them: their momentum is "
        "``gathered``, or each matrix is ``owned`` by one rank, and its gradient and weight sent from and to "
        "it; ``dealt`` is the same in buffers whose parts are not made equal.",
    )
    all_reduced_bytes: float = trait(
        0.0,
        "Bytes of each gradient in an all-reduce over the ranks that share optimizer states, each of which "
        "then steps its own part; 0 for a reduce-scatter of ``reduce_dtype``.",
        unit="byte",
    )
    step: str = trait(
        "in-place",
        "Whose code runs the optimizer's step: ``in-place``, with casts of gradients and low-bit weights "
        "(``megatron-core``), or over a buffer in fp32 (``flat-fp32``, ``foreach``).",
        name="optimizer_step",
        words=OPTIMIZER_STEPS,
    )
    step_bytes: float = trait(
        0.0,
        "Bytes for each weight that a rank's optimizer steps, in flat buffers that it takes for the step and "
        "for which no freed activation has room: an fp32 copy of its gradients.",
        unit="byte",
    )
    precision_aware: bool = trait(
        False,
        "Whether the optimizer takes gradients in the dtype that they have, and keeps of an fp32 master "
        "weight only the 16 bits that its bf16 weight lacks (Megatron-core's precision-aware optimizer).",
    )
    whole_masters: bool = trait(
        False,
        "Whether the precision-aware optimizer has no more than its moments in other dtypes: masters stay "
        "whole in fp32, and gradients are copied to it.",
    )
    traffic: float = trait(
        1.0,
        "Bytes that an optimizer's step moves over those counted for one fused kernel: clipping, copies into "
        "and out of buffers, a kernel for each of its operations.",
        unit="-",
        name="optimizer_traffic",
    )
