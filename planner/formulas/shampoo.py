"""Distributed Shampoo: statistics of both sides of a matrix, in blocks, and their inverse roots."""

from __future__ import annotations

from planner.numeric import Num, ceil

BLOCK = 8192.0
"""Largest side of a block that has statistics of its own (``max_preconditioner_dim``). [element]"""

FREQUENCY = 100.0
"""Steps from one computation of the roots to the next (``precondition_frequency``). [-]"""

EIGEN_FLOPS = 9.0
"""Arithmetic of all eigenvalues and vectors of a symmetric matrix, over its side cubed (G. H. Golub, C. F.
Van Loan, "Matrix Computations," 4th ed., sec. 8.3). [-]"""


def shampoo_side(m: Num) -> Num:
    r"""Side of the equal blocks of a matrix, no longer than the largest that there may be. [element]

    .. math:: \frac{m}{\lceil m / d \rceil}

    Parameters
    ----------
    m : Num
        Rows or columns. [element]

    References
    ----------
    .. [1] H.-J. M. Shi et al., "A Distributed Data-Parallel PyTorch Implementation of the Distributed Shampoo
       Optimizer," arXiv:2309.06497, 2023, sec. 3.1.

    Examples
    --------
    >>> float(shampoo_side(4096.0)), float(shampoo_side(32768.0))
    (4096.0, 8192.0)
    """
    return m / ceil(m / BLOCK)


def shampoo_kept(m: Num, n: Num) -> Num:
    r"""Elements kept for one matrix beside its moments: statistics of both sides, and their roots. [element]

    .. math:: \frac{2\,m n\,(a^2 + b^2)}{a b}

    of blocks of :math:`a` rows and :math:`b` columns, each with :math:`2(a^2 + b^2)`.

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] H.-J. M. Shi et al., "Distributed Shampoo," arXiv:2309.06497, 2023, sec. 3.

    Examples
    --------
    >>> float(shampoo_kept(8192.0, 32768.0)) / (8192 * 32768)
    4.0
    """
    rows, columns = shampoo_side(m), shampoo_side(n)
    return 2.0 * m * n * (rows / columns + columns / rows)


def shampoo_flops(m: Num, n: Num) -> Num:
    r"""FLOPs of a step for one matrix: statistics, preconditioning, and the roots' share. [FLOP]

    .. math:: F = 4 m n (a + b) + \frac{9\, m n\,(a^3 + b^3)}{100\, a b}

    of blocks of :math:`a` rows and :math:`b` columns.

    Parameters
    ----------
    m, n : Num
        Rows and columns. [element]

    References
    ----------
    .. [1] H.-J. M. Shi et al., "Distributed Shampoo," arXiv:2309.06497, 2023, sec. 3.

    Examples
    --------
    >>> round(float(shampoo_flops(4096.0, 4096.0)) / 4096**3, 2)
    8.18
    """
    rows, columns = shampoo_side(m), shampoo_side(n)
    roots = EIGEN_FLOPS / FREQUENCY * (rows * rows / columns + columns * columns / rows)
    return m * n * (4.0 * (rows + columns) + roots)
