"""Bits for each layer of what is exchanged: the least bytes with the error of uniform bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    """Return the mean bits of a parameter where each group of layers has its own."""
    groups = group_sizes(model)
    sizes = [size for _, size in groups]
    chosen = chosen_bits(groups, uniform)
    return float(sum(size * bits for size, bits in zip(sizes, chosen, strict=True)) / sum(sizes))


def bits_by_group(model: ModelSpec, uniform: float = UNIFORM) -> Mapping[str, Mapping[float, int]]:
    """Return how many groups of a kind have so many bits: the embedding, the head, and the layers."""
    groups = group_sizes(model)
    found: dict[str, Counter[float]] = {}
    for (name, _), bits in zip(groups, chosen_bits(groups, uniform), strict=True):
        found.setdefault(name, Counter())[bits] += 1
    return found


def chosen_bits(groups: Sequence[tuple[str, float]], uniform: float) -> tuple[float, ...]:
    """Return the bits of each group by the least bytes.

    Errors need gradients; here each parameter's is assumed alike, so that the error of a group with b bits
    is the root of its size over 2 to the b.
    """
    params, bits = np.array([size for _, size in groups]), np.array(BITS)
    errors = np.sqrt(params)[:, None] * 2.0**-bits
    budget = float((np.sqrt(params) * 2.0**-uniform).sum())
    return tuple(BITS[choice] for choice in least_bytes(params[:, None] * bits / 8.0, errors, budget))


def group_sizes(model: ModelSpec) -> Sequence[tuple[str, float]]:
    """Return the parameters of the embedding, the head and each layer, by name. [element]"""
    ends = [("embedding", float(model.embedding_params)), ("head", float(model.head_params))]
    blocks = [("layers", float(model.block_params(name))) for name in model.layers]
    return [(name, size) for name, size in (*ends, *blocks) if size > 0]
