"""The routed feed-forward of a mixture of experts: many small matrix products in one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.formulas.gemm import GemmCurve
from planner.formulas.roofline import roofline_seconds
from planner.numeric import Num
from planner.units import parse

ROUTED_BYTES = 6.0
"""Bytes of each element of a routed row, hidden and feed-forward alike, forward. [byte]

Hidden: gathered (read and written) and read again to be summed; feed-forward: gate and up are read, the
product is written. Two bytes each.
"""


@dataclass(frozen=True)
class ExpertCurve:
    """Constants of grouped products on one accelerator, for one data type.

    Parameters
    ----------
    rate : float
        FLOP/s that experts with endlessly many rows approach. [FLOP/s]
    half_rows : float
        Rows of one expert at which half of it is reached. [element]
    launch : float
        Time of the routing and of all the launches of a layer, forward. [s]
    weight_bandwidth : float
        Bytes/s at which the weights of experts with few rows are read. [byte/s]
    activation_bandwidth : float
        Bytes/s of gathering, activation and summing. [byte/s]
    operand_bytes : float
        Size of an element of the weights. [byte]
    rows_range : (float, float)
        Rows of one expert that were measured. [element]
    """

    rate: float
    half_rows: float
    launch: float
    weight_bandwidth: float
    activation_bandwidth: float
    operand_bytes: float
    rows_range: tuple[float, float]


def grouped_gemm_seconds(rows: Num, experts: Num, n: Num, k: Num, curve: ExpertCurve) -> Num:
    r"""Seconds of one product for each expert of a rank, in a single kernel.

    .. math:: t = \sqrt[4]{\left(\frac{2 E (r + r_0) n k}{R}\right)^4 + \left(\frac{b E n k}{W}\right)^4}

    Parameters
    ----------
    rows : Num
        Rows :math:`r` of one expert in the mean. [element]
    experts : Num
        Experts :math:`E` on this rank. [-]
    n, k : Num
        Columns and inner dimension of one expert. [element]
    curve : ExpertCurve
        Rate :math:`R`, half-rate rows :math:`r_0`, bytes :math:`b` of a weight, bandwidth :math:`W`.

    Returns
    -------
    Num
        Elapsed time without launch. [s]

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5.
    """
    weights = experts * n * k
    compute = (2.0 / curve.rate) * ((rows + curve.half_rows) * weights)
    return roofline_seconds(compute, weights * (curve.operand_bytes / curve.weight_bandwidth))


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


def expert_layer_seconds(rows: Num, experts: Num, hidden: Num, ffn_hidden: Num, curve: ExpertCurve) -> Num:
    r"""Seconds of the routed experts of one layer on one rank, gated, forward, without communication.

    .. math:: t = t_0 + t_a + t_{3hf}

    Parameters
    ----------
    rows : Num
        Rows of one expert in the mean. [element]
    experts : Num
        Experts on this rank. [-]
    hidden, ffn_hidden : Num
        Width of a row, and inside one expert on this rank. [element]
    curve : ExpertCurve
        Constants; its launch time is :math:`t_0`.

    Returns
    -------
    Num
        Elapsed time. [s]

    References
    ----------
    .. [1] T. Gale, D. Narayanan, C. Young, M. Zaharia, "MegaBlocks: Efficient Sparse Training with
       Mixture-of-Experts," arXiv:2211.15841, section 5.
    """
    products = grouped_gemm_seconds(rows, experts, 3.0 * ffn_hidden, hidden, curve)
    return curve.launch + routed_activation_seconds(rows, experts, hidden, ffn_hidden, curve) + products


def expert_host_seconds(experts: Num, launch: Num, floor: Num) -> Num:
    r"""Host time of a layer with experts, forward and backward: the floor of its time.

    .. math:: t = \max(t_l, E t_e) \text{ where } E > 0

    Parameters
    ----------
    experts : Num
        Experts :math:`E` on a rank; 0 where the layer has none. [-]
    launch : Num
        Time :math:`t_e` to launch the kernels of one expert, after its count of tokens was read back. [s]
    floor : Num
        The least time :math:`t_l` of a layer, however few its experts. [s]

    Returns
    -------
    Num
        Time of a micro-batch. [s]

    References
    ----------
    .. [1] "Performance summary," NVIDIA Megatron-Bridge: recipes with and without a CUDA graph of the whole
       iteration, https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html
    """
    return np.maximum(np.where(np.greater(experts, 0), floor, 0.0), experts * launch)


def experts_extrapolated(rows: Num, curve: ExpertCurve) -> Num:
    """One where an expert has fewer or more rows than were measured, else zero.

    Parameters
    ----------
    rows : Num
        Rows of one expert in the mean. [element]
    curve : ExpertCurve
        Its range.

    Returns
    -------
    Num
        0 or 1. [-]
    """
    result: Num = np.where((rows < curve.rows_range[0]) | (rows > curve.rows_range[1]), 1.0, 0.0)
    return result


def expert_curve(fields: Mapping[str, object], dense: GemmCurve, bandwidth: float) -> ExpertCurve:
    """Resolve one ``experts`` entry of a curve file; the rate is that of the dense product.

    Parameters
    ----------
    fields : Mapping
        The entry, every quantity a text with its unit.
    dense : GemmCurve
        Matrix products of the same accelerator and data type.
    bandwidth : float
        Memory bandwidth of the datasheet. [byte/s]

    Returns
    -------
    ExpertCurve
        Constants in base units.

    Raises
    ------
    KeyError
        If a field is missing.
    ValueError
        If a field is not what it should be.
    """
    ranges = fields["range"]
    if not isinstance(ranges, Mapping):
        raise ValueError("range: expected rows with two numbers")
    return ExpertCurve(
        rate=dense.rate,
        half_rows=parse(fields["half_rows"], "-"),
        launch=parse(fields["launch"], "s"),
        weight_bandwidth=parse(fields["weight_efficiency"], "-") * bandwidth,
        activation_bandwidth=parse(fields["activation_efficiency"], "-") * bandwidth,
        operand_bytes=dense.operand_bytes,
        rows_range=(parse(ranges["rows"][0], "-"), parse(ranges["rows"][1], "-")),
    )
