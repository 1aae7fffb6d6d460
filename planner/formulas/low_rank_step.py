"""Dion: an orthonormal update of low rank, of which replicas exchange the factors alone."""

from __future__ import annotations

from planner.numeric import Num, minimum

RANK_SHARE = 0.25
"""Rank over the smaller side of a matrix: a quarter learns as all does at 3 B (arXiv:2504.05295). [-]"""


def dion_rank(m: Num, n: Num) -> Num:
    r"""Rank of the update of a matrix. [element]

    .. math:: r = \frac{1}{4}\min(m, n)

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] K. Ahn et al., "Dion: Distributed Orthonormalized Updates," arXiv:2504.05295, 2025.

    Examples
    --------
    >>> float(dion_rank(4096.0, 16384.0))
    1024.0
    """
    return RANK_SHARE * minimum(m, n)


def dion_flops(m: Num, n: Num) -> Num:
    r"""FLOPs of a step for one matrix. [FLOP]

    .. math:: F = 8 m n r + 2 m r^2

    Power iteration :math:`M Q`, :math:`M^T P`, error feedback and update take :math:`2mnr` each, the QR
    factorisation of :math:`m \times r` the rest.

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] K. Ahn et al., "Dion: Distributed Orthonormalized Updates," arXiv:2504.05295, 2025, algorithm 1.

    Examples
    --------
    >>> float(dion_flops(4096.0, 4096.0)) / 4096**3
    2.125
    """
    rank = dion_rank(m, n)
    return 8.0 * m * n * rank + 2.0 * m * rank * rank


def dion_kept(m: Num, n: Num) -> Num:
    r"""Elements kept for one matrix beside its momentum: the right factor of the step before. [element]

    .. math:: n r

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] K. Ahn et al., "Dion: Distributed Orthonormalized Updates," arXiv:2504.05295, 2025, algorithm 1.

    Examples
    --------
    >>> float(dion_kept(4096.0, 4096.0)) / 4096**2
    0.25
    """
    return n * dion_rank(m, n)


def dion_exchanged(m: Num, n: Num) -> Num:
    r"""Elements that replicas reduce in the place of the gradient of one matrix: both factors. [element]

    .. math:: (m + n)\,r

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] K. Ahn et al., "Dion: Distributed Orthonormalized Updates," arXiv:2504.05295, 2025, sec. 3.

    Examples
    --------
    >>> float(dion_exchanged(4096.0, 4096.0)) / 4096**2
    0.5
    """
    return (m + n) * dion_rank(m, n)
