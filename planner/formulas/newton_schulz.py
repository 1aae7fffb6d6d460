"""Arithmetic of the Newton-Schulz iteration by which Muon orthogonalises a matrix."""

from __future__ import annotations

from planner.numeric import Num, maximum, minimum

STEPS = 5.0
"""Iterations that Muon takes (K. Jordan, https://kellerjordan.github.io/posts/muon/). [-]"""


def newton_schulz_flops(m: Num, n: Num) -> Num:
    r"""FLOPs to orthogonalise a whole matrix of momentum. [FLOP]

    .. math:: F = 5 \left(4 a^2 b + 2 a^3\right)

    An iteration multiplies :math:`A = X X^T`, :math:`A A` and :math:`(b A + c A A) X`.

    Parameters
    ----------
    m, n : Num
        Rows and columns of the matrix, :math:`a` the fewer and :math:`b` the more. [element]

    References
    ----------
    .. [1] J. Liu et al., "Muon is Scalable for LLM Training," arXiv:2502.16982, 2025, sec. 2.1, equation 2.

    Examples
    --------
    >>> newton_schulz_flops(4096.0, 4096.0) / (30 * 4096**3)
    1.0
    """
    small, large = minimum(m, n), maximum(m, n)
    return STEPS * (4.0 * small * small * large + 2.0 * small * small * small)
