"""The routed feed-forward of a mixture of experts: many small matrix products in one kernel."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.formulas.roofline import roofline_seconds
from planner.numeric import Num, ceil, maximum, where

ROUTED_BYTES = 6.0
"""Bytes of each element of a routed row, hidden and feed-forward alike, forward. [byte]

Hidden: gathered (read and written) and read again to be summed; feed-forward: gate and up are read, the
product is written. Two bytes each.
"""

TILE_ROWS = 128.0
"""Rows of an output tile; no tile holds rows of two experts. [element]

References
----------
.. [1] DeepSeek-AI, "DeepGEMM," https://github.com/deepseek-ai/DeepGEMM: each expert's rows are aligned to the
   block of 128.
"""


@dataclass(frozen=True)
class ExpertCurve:
    """Constants of grouped products on one accelerator, for one data type.

    Parameters
    ----------
    rate : float
        FLOP/s that endlessly large experts approach. [FLOP/s]
    launch : float
        Time of the routing and of all the launches of a layer, forward. [s]
    bandwidth : float
        Bytes/s at which products read weights and rows, and write results. [byte/s]
    activation_bandwidth : float
        Bytes/s of gathering, activation and summing. [byte/s]
    token_bytes : float
        Bytes of each element of a token, whether or not it is routed here: the result is written, and
        in 8 and 4 bit its input was brought to the type. [byte]
    operand_bytes, output_bytes : float
        Size of an element of weights and rows, and of a result. [byte]
    rows_range : (float, float)
        Rows of one expert that were measured. [element]
    tile_rows : float
        Rows of a tile, which no two experts share. [element]
    """

    rate: float
    launch: float
    bandwidth: float
    activation_bandwidth: float
    token_bytes: float
    operand_bytes: float
    output_bytes: float
    rows_range: tuple[float, float]
    tile_rows: float = TILE_ROWS


def tiled_rows(rows: Num, curve: ExpertCurve) -> Num:
    r"""Rows that are computed where every expert has the same, known, number of them. [element]

    .. math:: r' = q \left\lceil \frac{r}{q} \right\rceil

    Parameters
    ----------
    rows : Num
        Rows :math:`r` of one expert. [element]
    curve : ExpertCurve
        Rows :math:`q` of a tile.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepGEMM," https://github.com/deepseek-ai/DeepGEMM: rows of each expert are aligned
       to the block of 128.
    """
    return ceil(rows / curve.tile_rows) * curve.tile_rows


def tiled_rows_in_mean(rows: Num, curve: ExpertCurve) -> Num:
    r"""Rows that are computed in the mean where a router decides how many each expert has.

    .. math:: r' = r + \frac{q}{2}

    Parameters
    ----------
    rows : Num
        Rows :math:`r` of one expert in the mean. [element]
    curve : ExpertCurve
        Rows :math:`q` of a tile.

    Returns
    -------
    Num
        Rows with the half tile that the last one is short of in the mean. [element]

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5.1.2 (padding to blocks of 128).
    """
    return rows + 0.5 * curve.tile_rows


def grouped_gemm_seconds(m: Num, n: Num, k: Num, experts: Num, curve: ExpertCurve) -> Num:
    r"""Seconds of one m by n product over k for each expert of a rank, in a single kernel.

    .. math:: t = \sqrt[4]{\left(\frac{2 E m n k}{R}\right)^4
              + \left(\frac{E \left(b (m + n) k + b_o m n\right)}{W}\right)^4}

    Parameters
    ----------
    m, n, k : Num
        Rows and columns of one expert's result, and the inner dimension. [element]
    experts : Num
        Experts :math:`E` on this rank. [-]
    curve : ExpertCurve
        Rate :math:`R`, bytes of an operand :math:`b` and of the result :math:`b_o`, bandwidth :math:`W`.

    Returns
    -------
    Num
        Elapsed time without launch. [s]

    Notes
    -----
    The tiles of all experts follow each other in one kernel: no start of a row of products and no last wave
    is lost by each expert, as it is by a product of its own.

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5.
    """
    area = experts * m * n
    compute = (2.0 / curve.rate) * (area * k)
    operands = experts * (m + n) * k * (curve.operand_bytes / curve.bandwidth)
    return roofline_seconds(compute, operands + area * (curve.output_bytes / curve.bandwidth))


def routed_activation_seconds(
    rows: Num, experts: Num, hidden: Num, ffn_hidden: Num, curve: ExpertCurve
) -> Num:
    r"""Seconds to gather the rows, apply a gated activation and sum the results, forward.

    .. math:: t = \frac{6 r E (h + f)}{W}

    Parameters
    ----------
    rows : Num
        Rows :math:`r` of one expert in the mean. [element]
    experts : Num
        Experts :math:`E` on this rank. [-]
    hidden, ffn_hidden : Num
        Width :math:`h` of a row and :math:`f` inside one expert on this rank. [element]
    curve : ExpertCurve
        Bandwidth :math:`W`.

    Returns
    -------
    Num
        Elapsed time without launch. [s]

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5 (permutation).
    """
    return rows * experts * (hidden + ffn_hidden) * (ROUTED_BYTES / curve.activation_bandwidth)


def expert_layer_seconds(
    tokens: Num, rows: Num, experts: Num, hidden: Num, ffn_hidden: Num, curve: ExpertCurve
) -> Num:
    r"""Seconds of the routed experts of one layer on one rank, gated, forward, without communication. [s]

    .. math:: t = t_0 + \frac{b_t T h}{W_a} + t_a + t_{r' \times 2f \times h} + t_{r' \times h \times f}

    Parameters
    ----------
    tokens : Num
        Tokens :math:`T` that the kernels see, those without a row on this rank included. [element]
    rows : Num
        Rows of one expert under a balanced router. [element]
    experts : Num
        Experts on this rank. [-]
    hidden, ffn_hidden : Num
        Width of a row, and inside one expert on this rank. [element]
    curve : ExpertCurve
        Constants; its launch time is :math:`t_0`, and :math:`b_t` the bytes of a token.

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5.
    """
    tiled = tiled_rows(rows, curve)
    into = grouped_gemm_seconds(tiled, 2.0 * ffn_hidden, hidden, experts, curve)
    out = grouped_gemm_seconds(tiled, hidden, ffn_hidden, experts, curve)
    seen = tokens * hidden * (curve.token_bytes / curve.activation_bandwidth)
    routed = routed_activation_seconds(rows, experts, hidden, ffn_hidden, curve)
    return curve.launch + seen + routed + into + out


def expert_host_seconds(experts: Num, launch: Num, floor: Num) -> Num:
    r"""Host time of a layer with experts, forward and backward: the floor of its time. [s]

    .. math:: t = \max(t_l, E t_e) \text{ where } E > 0

    Parameters
    ----------
    experts : Num
        Experts :math:`E` on a rank; 0 where the layer has none. [-]
    launch : Num
        Time :math:`t_e` to launch the kernels of one expert, after its count of tokens was read back. [s]
    floor : Num
        The least time :math:`t_l` of a layer, however few its experts. [s]

    References
    ----------
    .. [1] "Performance summary," NVIDIA Megatron-Bridge: recipes with and without a CUDA graph of the whole
       iteration, https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html
    """
    return maximum(where(experts > 0, floor, 0.0), experts * launch)


def experts_extrapolated(rows: Num, curve: ExpertCurve) -> Num:
    """One where an expert has fewer or more rows than were measured, else zero. [-]

    Parameters
    ----------
    rows : Num
        Rows of one expert in the mean. [element]
    curve : ExpertCurve
        Its range.
    """
    result: Num = where((rows < curve.rows_range[0]) | (rows > curve.rows_range[1]), 1.0, 0.0)
    return result
