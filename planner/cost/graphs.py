"""What CUDA graphs keep from all that runs outside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.cost.operators import Operator, Pricer
from planner.cost.peaks import Peak, passing_bytes
from planner.numeric import Num
from planner.techniques.engines._family import PassBytes

NOTHING: Final[tuple[frozenset[str], frozenset[str]]] = (frozenset(), frozenset())

GRAPHED: Final = {
    "mlp": (frozenset({"mlp"}), frozenset({"norm_1"})),
    "router": (frozenset({"router"}), frozenset({"norm_1"})),
    "attention": (
        frozenset({"qkv", "mla_up_proj", "core_attn", "attn_out", "router"}),
        frozenset({"norm_0", "norm_1"}),
    ),
}
"""Modules and names of the operators that a graph of a part of each layer holds."""


def layer_graph_bytes(pricer: Pricer, operators: Iterable[Operator], again: Callable[[Operator], Num]) -> Num:
    """Bytes that the graph of a part of a layer keeps: of its norm, of its operators, and its result.

    Parameters
    ----------
    pricer, operators : Pricer, iterable of Operator
        The layer's operators, and what prices them.
    again : callable
        Share of an operator that runs again. [-]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/transformer_layer.py``,
       ``_te_cuda_graph_capture``: the module ``mlp`` of layers without experts, ``attn`` of any, and of those
       with experts all that comes before the dispatcher (``moe_router``, ``moe_preprocess``).
    """
    modules, names = GRAPHED.get(pricer.case.traits.kernels.graphed, NOTHING)
    inside = [op for op in operators if op.module in modules or op.name in names]
    if len(inside) < 2:
        return 0.0
    kept: Num = 2.0 * pricer.local_tokens * pricer.case.model.hidden
    for op in inside:
        kept = kept + op.kept + op.saved * (1.0 - again(op))
    return kept


def graph_bytes(case: Case, peak: Peak, passes: PassBytes, states: Num, gradients: Num) -> Num:
    r"""Bytes by which an optimizer's step beside the memory of CUDA graphs exceeds the peak without them.

    .. math:: \max\left(0,\; g + b\,n + (1 + r)\,G - \max\left(g + b\,n,\; P\right)\right)

    Parameters
    ----------
    case : Case
        Slack :math:`r` of the allocator, bytes :math:`b` of a weight for the step.
    peak : Peak
        Gradients and all that passes take, slack included, :math:`P`.
    passes : PassBytes
        What of it lies in the memory of graphs, :math:`G`.
    states, gradients : Num
        Weights that the rank steps :math:`n`, and bytes of its gradients :math:`g`.

    Returns
    -------
    Num
        Bytes of each stage. [byte]

    Notes
    -----
    A graph's tensors have fixed places in a pool of their own, which stays taken from its capture on, whether
    they are in use or not, and is not given back where the device is full.

    References
    ----------
    .. [1] PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``, ``PrivatePool`` and ``release_cached_blocks``.
    .. [2] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/graph.py``, ``_order``: one for
       each micro-batch in flight, all in one pool; Megatron-LM d98e8a64,
       ``megatron/core/full_cuda_graph.py``: one for all passes.
    """
    if not case.traits.kernels.graphed:
        return 0.0
    present = gradients if peak.gradients is None else peak.gradients
    whole = case.traits.kernels.graphed == "passes"
    pool = peak.activations + peak.workspace if whole else passes.graphed
    flat = states * (case.step_bytes * (not case.offload.optimizer)) + gradients
    without = np.maximum(flat, passing_bytes(case, peak, present))
    return np.maximum(0.0, flat + (1 + case.traits.allocator.reserve_share) * pool - without)
