"""Model FLOPs of a step, as Megatron counts them, and the shares that follow."""

from __future__ import annotations

from planner.numeric import Num


def model_flops(tokens: Num, weights: Num, attention_width: Num, keys: Num) -> Num:
    r"""FLOPs of forward and backward over the products of a model.

    .. math:: F = 3 T \left(2 P + 2 w k\right)

    Parameters
    ----------
    tokens : Num
        Tokens :math:`T`. [-]
    weights : Num
        Weights :math:`P` that a token meets in products: projections, active experts and head; without
        router, norms and embedding. [element]
    attention_width : Num
        Sum over layers :math:`w` of heads times query-key plus value head size. [element]
    keys : Num
        Keys :math:`k` that a token sees in the mean: half the sequence where attention is causal. [element]

    Returns
    -------
    Num
        FLOPs, without recompute. [FLOP]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``num_floating_point_operations``, megatron/training/training.py: causal
       attention counted half.

    Examples
    --------
    One 4096-wide product and no attention, 10 tokens:

    >>> model_flops(10, 4096 * 4096, 0, 0)
    1006632960
    """
    return 3 * tokens * (2 * weights + 2 * attention_width * keys)
