"""The roofline: a kernel is bound by arithmetic or by memory, and pays both near the ridge."""

from __future__ import annotations

import math

from planner.numeric import Num, sqrt


def roofline_seconds(compute: Num, memory: Num) -> Num:
    r"""Seconds of a kernel whose arithmetic and memory traffic overlap, with a rounded corner.

    .. math:: t = \sqrt[4]{t_c^4 + t_m^4}

    Parameters
    ----------
    compute : Num
        Time :math:`t_c` that the arithmetic alone takes. [s]
    memory : Num
        Time :math:`t_m` that the memory traffic alone takes. [s]

    Returns
    -------
    Num
        Elapsed time, at least the larger of the two and at most 19% above it. [s]

    Notes
    -----
    The fourth power was chosen on measured matrix products; powers of 6 and 8 fit a little worse.
    It is taken by two square roots, which scalars and arrays round alike.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model
       for Multicore Architectures," Commun. ACM 52(4), 2009, fig. 1, doi:10.1145/1498765.1498785.

    Examples
    --------
    >>> float(roofline_seconds(3.0, 0.0))
    3.0
    """
    compute_squared = compute * compute
    memory_squared = memory * memory
    if isinstance(compute, float) and isinstance(memory, float):
        return math.sqrt(math.sqrt(compute_squared * compute_squared + memory_squared * memory_squared))
    return sqrt(sqrt(compute_squared * compute_squared + memory_squared * memory_squared))


def memory_bound_seconds(nbytes: Num, bandwidth: Num, efficiency: Num, launch: Num) -> Num:
    r"""Seconds of a kernel that does little more than move bytes, such as a norm or an optimizer step. [s]

    .. math:: t = t_0 + \frac{S}{e\,W}

    Parameters
    ----------
    nbytes : Num
        Bytes :math:`S` read and written. [byte]
    bandwidth : Num
        Memory bandwidth :math:`W` of the datasheet. [byte/s]
    efficiency : Num
        Share :math:`e` of it that such kernels reach, above 0 and at most 1. [-]
    launch : Num
        Time :math:`t_0` that the kernel takes before the first byte. [s]

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model
       for Multicore Architectures," Commun. ACM 52(4), 2009, doi:10.1145/1498765.1498785.

    Examples
    --------
    >>> float(memory_bound_seconds(1e9, 2e12, 0.5, 0.0))
    0.001
    """
    return launch + nbytes / (efficiency * bandwidth)


def drain_half_k(flop_rate: Num, bandwidth: Num, output_bytes: Num) -> Num:
    r"""Inner dimension whose products last as long as writing the result once.

    .. math:: k_0 = \frac{b_o R}{2 W}

    Parameters
    ----------
    flop_rate : Num
        Rate :math:`R` of the products. [FLOP/s]
    bandwidth : Num
        Memory bandwidth :math:`W` that is reached. [byte/s]
    output_bytes : Num
        Size :math:`b_o` of an element of the result. [byte/element]

    Returns
    -------
    Num
        Inner dimension: the most that ends of products should cost, where nothing hides them. [element]

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide," DA-08817-001, section on math and memory
       bounds.

    Examples
    --------
    >>> drain_half_k(8e15, 4e12, 2.0)
    2000.0
    """
    return output_bytes * flop_rate / (2.0 * bandwidth)
