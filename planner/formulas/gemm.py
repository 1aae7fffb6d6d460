"""Matrix products: a curve for each accelerator and data type, defined for every shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from planner.dataclasses import dataclass
from planner.formulas.roofline import roofline_seconds
from planner.formulas.size_grid import SizeGrid, corrected
from planner.numeric import PLAIN, Num, ceil, floor, minimum, where

MOST_KNOWN: Final = 2048
"""Sizes whose results a curve keeps. [-]"""

Range = tuple[float, float]
"""Smallest and largest size that was measured. [element]"""


@dataclass(frozen=True)
class GemmCurve:
    """Constants of one accelerator and data type, resolved to base units.

    Parameters
    ----------
    rate : float
        FLOP/s that an endlessly large product approaches; below the dense peak. [FLOP/s]
    half_k : float
        Inner dimension at which half of that rate is reached. [element]
    half_mn : float
        The same for rows and columns; used where ``wave_weight`` is 0. [element]
    wave_weight : float
        Share of the loss of a last, partly filled wave of tiles that is really lost, 0 to 1. [-]
    tiles : tuple of (float, float, float)
        Output tiles that the library may choose: rows, columns, and the elements of output that
        the best tile would make in the same time. [element]
    multiprocessors : float
        Tiles that run at once. [-]
    launch : float
        Time of an empty product. [s]
    bandwidth : float
        Memory bandwidth that operands and result really reach. [byte/s]
    operand_bytes, output_bytes : float
        Size of an element of the two inputs, with its scales, and of the result. [byte]
    quantisation_bytes : float
        Bytes moved for each element that is brought to this data type; 0 for 16 bit. [byte]
    quantisation_launch : float
        Time of the quantisation kernels before the first byte. [s]
    m_range, n_range, k_range : Range
        Sizes that were measured. [element]
    residuals : SizeGrid, optional
        What a machine's own measurement found beside the law; curves that ship have none.
    """

    rate: float
    half_k: float
    half_mn: float
    wave_weight: float
    tiles: tuple[tuple[float, float, float], ...]
    multiprocessors: float
    launch: float
    bandwidth: float
    operand_bytes: float
    output_bytes: float
    quantisation_bytes: float
    quantisation_launch: float
    m_range: Range
    n_range: Range
    k_range: Range
    residuals: SizeGrid | None = None

    @cached_property
    def quantises(self) -> bool:
        """Whether operands are brought to this data type, which takes time."""
        return bool(self.quantisation_bytes or self.quantisation_launch)

    @cached_property
    def known(self) -> dict[tuple[float, ...], float]:
        """Areas by rows and columns: layers, plans and runs ask for the same again. [element^2]"""
        return {}

    @cached_property
    def tile_sides(self) -> tuple[set[float], ...]:
        """Rows of the tiles and columns, each size once. [element]"""
        return {tile[0] for tile in self.tiles}, {tile[1] for tile in self.tiles}

    @cached_property
    def tile_areas(self) -> tuple[tuple[float, float, float, float], ...]:
        """Rows and columns of each tile, and what it costs by itself and in each wave. [element^2]"""
        weight = self.wave_weight
        return tuple(
            (a, b, cost * (1 - weight), cost * weight * self.multiprocessors) for a, b, cost in self.tiles
        )


def _keep(known: dict[tuple[float, ...], float], sizes: tuple[float, ...], area: float) -> None:
    """Keep what was worked out for some sizes, and forget all where that is much."""
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[sizes] = area


def wave_area(m: Num, n: Num, curve: GemmCurve) -> Num:
    r"""Output elements that are computed when whole tiles run in waves over the multiprocessors.

    .. math:: A = \min_{(a, b, c)} c \left[(1 - \alpha) T + \alpha P \lceil T / P \rceil\right],
              \quad T = \lceil m / a \rceil \lceil n / b \rceil

    Parameters
    ----------
    m, n : Num
        Rows and columns of the result. [element]
    curve : GemmCurve
        Tiles :math:`(a, b)` with their cost :math:`c`, the wave weight :math:`\alpha` and the
        number of multiprocessors :math:`P`.

    Returns
    -------
    Num
        Area in elements, never below ``m * n``. [element^2]

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide," DA-08817-001, sections on tile
       quantization and wave quantization.
    """
    if isinstance(m, PLAIN) and isinstance(n, PLAIN) and 0.0 < m < math.inf and 0.0 < n < math.inf:
        if (found := curve.known.get((m, n))) is not None:
            return found
        units, up, least = curve.multiprocessors, math.ceil, math.inf
        for a, b, each, wave in curve.tile_areas:  # to the same bits and without the price of arrays
            tiles = float(up(m / a) * up(n / b))
            area = each * tiles + wave * up(tiles / units)
            if area < least:
                least = area
        _keep(curve.known, (m, n), least)
        return least
    rows = {a: ceil(m / a) for a in curve.tile_sides[0]}
    columns = {b: ceil(n / b) for b in curve.tile_sides[1]}
    best: Num = math.inf
    for a, b, each, wave in curve.tile_areas:
        count = rows[a] * columns[b]
        best = minimum(best, each * count + wave * ceil(count / curve.multiprocessors))
    return best


def gemm_compute_seconds(m: Num, n: Num, k: Num, curve: GemmCurve) -> Num:
    r"""Seconds that the arithmetic of an m by n product over k takes.

    .. math:: t_c = \frac{2 A (k + k_0)}{R}, \quad A = (m + h)(n + h)
              \ \text{or the area of whole waves of tiles}

    Parameters
    ----------
    m, n, k : Num
        Rows and columns of the result, and the inner dimension. [element]
    curve : GemmCurve
        Rate :math:`R`, half-rate lengths :math:`k_0` and :math:`h`, or the tiles.

    Returns
    -------
    Num
        Time, never below ``2 * m * n * k / R``. [s]

    References
    ----------
    .. [1] R. W. Hockney, "The Science of Computer Benchmarking," SIAM, 1996, section 1.3 (half-performance
       length).
    """
    area = wave_area(m, n, curve) if curve.wave_weight else (m + curve.half_mn) * (n + curve.half_mn)
    return (2.0 / curve.rate) * (area * (k + curve.half_k))


def gemm_memory_seconds(m: Num, n: Num, k: Num, curve: GemmCurve) -> Num:
    r"""Seconds that reading both operands once and writing the result once takes. [s]

    .. math:: t_m = \frac{b (m + n) k + b_o m n}{W}

    Parameters
    ----------
    m, n, k : Num
        Rows and columns of the result, and the inner dimension. [element]
    curve : GemmCurve
        Bytes of an operand :math:`b` and of the result :math:`b_o`, and the bandwidth :math:`W`.

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide," DA-08817-001, section on math and
       memory bounds.
    """
    operands = (m + n) * k * (curve.operand_bytes / curve.bandwidth)
    return operands + m * n * (curve.output_bytes / curve.bandwidth)


def gemm_seconds(m: Num, n: Num, k: Num, curve: GemmCurve) -> Num:
    r"""Seconds of one matrix product, operands ready in the curve's data type.

    .. math:: t = \left(t_0 + \sqrt[4]{t_c^4 + t_m^4}\right) (1 + r)

    Parameters
    ----------
    m, n, k : Num
        Rows and columns of the result, and the inner dimension. [element]
    curve : GemmCurve
        Constants of the accelerator and data type; its launch time is :math:`t_0`, and :math:`r` its
        residual at these sizes.

    Returns
    -------
    Num
        Elapsed time; without residuals monotone in each dimension and never faster than the dense peak. [s]

    Notes
    -----
    Residuals stand in curves that were measured on a machine of one's own, never in those that ship.
    Bringing operands to 8 or 4 bit is not in it: add ``quantisation_seconds`` for each tensor.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model
       for Multicore Architectures," Commun. ACM 52(4), 2009, doi:10.1145/1498765.1498785.
    """
    compute = gemm_compute_seconds(m, n, k, curve)
    seconds = curve.launch + roofline_seconds(compute, gemm_memory_seconds(m, n, k, curve))
    return seconds if curve.residuals is None else corrected(seconds, curve.residuals, m, n, k)


def quantisation_seconds(elements: Num, curve: GemmCurve) -> Num:
    r"""Seconds to bring one 16-bit tensor to the curve's data type, and nothing for 16 bit itself. [s]

    .. math:: t = t_q + \frac{b_q N}{W}

    Parameters
    ----------
    elements : Num
        Elements :math:`N` of the tensor. [element]
    curve : GemmCurve
        Launch time :math:`t_q`, bytes per element :math:`b_q`, bandwidth :math:`W`.

    References
    ----------
    .. [1] P. Micikevicius et al., "FP8 Formats for Deep Learning," arXiv:2209.05433, section 3.2.
    """
    return curve.quantisation_launch + elements * (curve.quantisation_bytes / curve.bandwidth)


def gemm_extrapolated(m: Num, n: Num, k: Num, curve: GemmCurve) -> Num:
    """One where a dimension lies outside the sizes that the curve was fitted to, else zero. [-]

    Parameters
    ----------
    m, n, k : Num
        Rows and columns of the result, and the inner dimension. [element]
    curve : GemmCurve
        Its ranges.
    """
    if isinstance(m, PLAIN) and isinstance(n, PLAIN) and isinstance(k, PLAIN):
        for size, (least, most) in zip((m, n, k), (curve.m_range, curve.n_range, curve.k_range), strict=True):
            if size < least or size > most:
                return 1.0
        return 0.0
    outside = (m < curve.m_range[0]) | (m > curve.m_range[1])
    outside = outside | (n < curve.n_range[0]) | (n > curve.n_range[1])
    outside = outside | (k < curve.k_range[0]) | (k > curve.k_range[1])
    return where(outside, 1.0, 0.0)


def tile_costs(tiles: Sequence[Range], edge: float) -> tuple[tuple[float, float, float], ...]:
    r"""Add to each tile what it costs when each of its sides has a border that does no work.

    .. math:: c = \frac{(a + \epsilon)(b + \epsilon)}{\min_{(a, b)} (a + \epsilon)(b + \epsilon) / (a b)}

    Parameters
    ----------
    tiles : sequence of (float, float)
        Rows and columns. [element]
    edge : float
        Border :math:`\epsilon`. [element]

    Returns
    -------
    tuple of (float, float, float)
        Rows, columns and cost; the cost of the best tile is its area. [element]

    Examples
    --------
    >>> tile_costs([(128.0, 256.0), (128.0, 128.0)], 0.0)
    ((128.0, 256.0, 32768.0), (128.0, 128.0, 16384.0))
    """
    best = min((a + edge) * (b + edge) / (a * b) for a, b in tiles)
    return tuple((a, b, (a + edge) * (b + edge) / best) for a, b in tiles)


ODD_SLOWDOWN = 2.8
"""Time of a 16-bit product with an odd stride over an aligned one's. [-]

vTrain's table has 82 TFLOP/s in the products of a head of 50,257 entries on A100, and 231 in those of its
half of 25,128. nanoGPT trained a quarter faster with 50,304 entries than with 50,257 (A. Karpathy, quoted at
https://simonwillison.net/tags/andrej-karpathy/?page=2), where the head is 0.27 of all FLOPs: about 2 or more.
"""


def misaligned_slowdown(stride: Num) -> Num:
    r"""Time of a product one of whose matrices has rows of ``stride`` 16-bit elements, over an aligned one's.

    .. math:: x = 2.8 \text{ where the stride is odd, else } 1

    Parameters
    ----------
    stride : Num
        Elements in a row. [-]

    Returns
    -------
    Num
        Slowdown. [-]

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide," DA-08817-001, section on tensor core
       requirements: rows of multiples of 16 bytes are fastest.

    Examples
    --------
    >>> float(misaligned_slowdown(50257.0)), float(misaligned_slowdown(50304.0))
    (2.8, 1.0)
    """
    return where(floor(stride / 2.0) * 2.0 == stride, 1.0, ODD_SLOWDOWN)
