"""What CUDA graphs keep from all that runs outside them."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.memory.peaks import Peak, passing_bytes
from planner.cost.memory.reserve import needed_share
from planner.numeric import Num, maximum
from planner.techniques.engines.family import PassBytes


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
    if not case.graphs.name:
        return 0.0
    present = gradients if peak.gradients is None else peak.gradients
    pool = peak.activations + peak.workspace if case.graphs.whole else passes.graphed
    flat = states * (case.step_bytes * (not case.offload.optimizer)) + gradients
    without = maximum(flat, passing_bytes(case, peak, present))
    return maximum(0.0, flat + (1 + needed_share(case)) * pool - without)
