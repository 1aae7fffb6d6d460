r"""Ranks whose sequences have unequal lengths: the slowest of several, and ranks for each length.

Symbols: :math:`n` ranks, :math:`k` draws that a rank adds up, :math:`D` ranks of a sequence, :math:`s` its
tokens, :math:`C` tokens that a rank takes.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Column, Num, ceil, maximum


def expected_largest(draws: Column, ranks: Num) -> Num:
    r"""Expected largest of independent draws from a sample.

    .. math:: E = \sum_{i=1}^N x_{(i)} \left[(i/N)^n - ((i-1)/N)^n\right]

    Parameters
    ----------
    draws : array
        The sample :math:`x` of :math:`N` values. [-]
    ranks : Num
        How many are drawn, :math:`n`. [-]

    Returns
    -------
    Num
        The expectation, in the unit of the sample. [-]

    References
    ----------
    .. [1] H. A. David, H. N. Nagaraja, "Order Statistics," 3rd ed., Wiley, 2003, doi:10.1002/0471722162.

    Examples
    --------
    >>> round(float(expected_largest(np.array([0.0, 1.0]), 1.0)), 3)
    0.5
    >>> round(float(expected_largest(np.array([0.0, 1.0]), 2.0)), 3)
    0.75
    """
    shares = np.arange(len(draws) + 1) / len(draws)
    powers = shares ** np.asarray(ranks, float)[..., None]
    result: Num = np.diff(powers, axis=-1) @ np.sort(draws)
    return result


def sequence_ranks(tokens: Num, capacity: Num, layers: Num, offloaded: Num = 0.0) -> Num:
    r"""Ranks that a sequence needs, some of its layers' activations in host memory.

    .. math:: D = \left\lceil \frac{2 s + (1 - r)(l - 2) s}{l C} \right\rceil

    Parameters
    ----------
    tokens : Num
        Tokens of the sequence :math:`s`. [-]
    capacity : Num
        Tokens whose activations a rank holds, :math:`C`. [-]
    layers : Num
        Layers of a rank :math:`l`, two of which stay on the device. [-]
    offloaded : Num
        Share :math:`r` of the other layers' activations that is in host memory. [-]

    Returns
    -------
    Num
        Ranks, one at least. [-]

    References
    ----------
    .. [1] H. Ge et al., "ByteScale: Efficient Scaling of LLM Training with a 2048K Context Length on More
       Than 12,000 GPUs," arXiv:2502.21231, 2025, sec. 5.1 (activations taken to grow with the tokens).

    Examples
    --------
    >>> float(sequence_ranks(32768.0, 8192.0, 32.0)), float(sequence_ranks(32768.0, 8192.0, 32.0, 0.5))
    (4.0, 3.0)
    """
    held = 2.0 * tokens + (1.0 - offloaded) * (layers - 2.0) * tokens
    return maximum(ceil(held / (layers * capacity)), 1.0)
