"""Bits for each layer of what is exchanged: the least bytes with the error of uniform bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planner.errors import SolverError
from planner.inputs.model import ModelSpec
from planner.numeric import Column

BITS: Final = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Bits that a layer may have. [-]"""
UNIFORM: Final = 4.0
"""Bits whose error is kept. [-]"""


def least_bytes(sizes: Column, errors: Column, budget: float) -> tuple[int, ...]:
    r"""Return the choice of each layer that sends least within a budget of error.

    .. math:: \min \sum_l S_{l c_l} \quad \text{with} \quad \sum_l e_{l c_l} \le E

    Parameters
    ----------
    sizes, errors : array of (layers, choices)
        Bytes and error of each layer with each choice.
    budget : float
        Sum of errors :math:`E` that is kept.

    Raises
    ------
    SolverError
        If no choice keeps it, or the solver fails.

    References
    ----------
    .. [1] I. Markov et al., "L-GreCo: Layerwise-Adaptive Gradient Compression For Efficient Data-parallel
       Deep Learning," arXiv:2210.17357, sec. 4.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    layers, choices = sizes.shape
    one_each = np.kron(np.eye(layers), np.ones(choices))
    scale = max(float(budget), 1e-300)
    limits = [
        LinearConstraint(one_each, 1.0, 1.0),
        LinearConstraint(errors.ravel()[None, :] / scale, -np.inf, 1.0 + 1e-12),
    ]
    answer = milp(
        sizes.ravel() / sizes.max(),
        constraints=limits,
        integrality=np.ones(layers * choices),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 1e-6, "time_limit": 5.0},
    )
    if answer.x is None:
        raise SolverError(f"no choice of bits by layer: {answer.message}")
    return tuple(int(row.argmax()) for row in answer.x.reshape(layers, choices))


def layer_bits(model: ModelSpec, uniform: float = UNIFORM) -> float:
    """Return the mean bits of a parameter where each group of layers has its own.

    Errors need gradients; here each parameter's is assumed alike, so that the error of a group with b bits
    is the root of its size over 2 to the b. Groups are the embedding, each layer and the head.
    """
    groups = group_sizes(model)
    bits = np.array(BITS)
    sizes = np.array(groups)[:, None] * bits / 8.0
    errors = np.sqrt(np.array(groups))[:, None] * 2.0**-bits
    budget = float((np.sqrt(np.array(groups)) * 2.0**-uniform).sum())
    chosen = least_bytes(sizes, errors, budget)
    return float(sum(size * BITS[choice] for size, choice in zip(groups, chosen, strict=True)) / sum(groups))


def group_sizes(model: ModelSpec) -> Sequence[float]:
    """Return the parameters of each layer, the embedding and the head. [element]"""
    blocks = [float(model.block_params(name)) for name in model.layers]
    ends = [float(model.embedding_params), float(model.head_params)]
    return [size for size in (*ends, *blocks) if size > 0]
