r"""Mixers that pass a state along the sequence, computed in chunks: arithmetic, traffic and time of a scan.

Inside a chunk of :math:`C` tokens all pairs meet, as in attention; between chunks one state of
:math:`d_k \times d_v` a head is passed on. Work grows with the sequence, not with its square.
"""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.numeric import Num


@dataclass(frozen=True)
class ScanKernel:
    """What chunked scans reach on one architecture.

    Parameters
    ----------
    compute_share : float
        Share of the dense 16-bit peak that their products reach. [-]
    traffic_share : float
        Share of the bytes that the kernels exchange which goes to memory, not to its cache. [-]
    step, launch : float
        Time of one chunk, which waits for the one before it, and of empty kernels. [s]
    backward : float
        Work of the backward pass over that of forward. [-]
    backward_step, backward_launch : float
        As forward. [s]
    """

    compute_share: float
    traffic_share: float
    step: float
    launch: float
    backward: float
    backward_step: float
    backward_launch: float


def delta_rule_flops(key_dim: Num, value_dim: Num, chunk: Num) -> Num:
    r"""FLOPs of the gated delta rule for one token and head, forward. [FLOP]

    .. math:: F = 2 \left(C (3 d_k + 2 d_v) + 3 d_k d_v\right)

    Of a chunk: keys with keys, keys and values through the inverse, queries with keys and that with the new
    values; of the state: what it holds under a key, what a query reads, and what is added.

    Parameters
    ----------
    key_dim, value_dim : Num
        Widths :math:`d_k, d_v` of one key and one value head. [element]
    chunk : Num
        Tokens :math:`C` of a chunk. [element]

    References
    ----------
    .. [1] S. Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length,"
       arXiv:2406.06484, 2024, eqs. 8-11; with a gate arXiv:2412.06464, eq. 10.

    Examples
    --------
    >>> delta_rule_flops(128, 128, 64)
    180224
    """
    return 2 * (chunk * (3 * key_dim + 2 * value_dim) + 3 * key_dim * value_dim)


def linear_attention_flops(key_dim: Num, value_dim: Num, chunk: Num, sharing: Num) -> Num:
    r"""FLOPs of linear attention or of a state space for one token and head, forward. [FLOP]

    .. math:: F = 2 \left(C (d_k / g + d_v) + 2 d_k d_v\right)

    Of a chunk: queries with keys, which :math:`g` heads share, and that with the values; of the state: what a
    query reads, and what is added.

    Parameters
    ----------
    key_dim, value_dim : Num
        Widths :math:`d_k, d_v` of one head; a state space calls them its state and its head. [element]
    chunk : Num
        Tokens :math:`C` of a chunk. [element]
    sharing : Num
        Heads :math:`g` that share queries and keys. [-]

    References
    ----------
    .. [1] T. Dao, A. Gu, "Transformers are SSMs," arXiv:2405.21060, 2024, sec. 6.
    .. [2] Z. Qin et al., "Lightning Attention-2," arXiv:2401.04658, 2024, sec. 3.

    Examples
    --------
    >>> linear_attention_flops(128, 64, 256, 8)
    73728.0
    """
    return 2 * (chunk * (key_dim / sharing + value_dim) + 2 * key_dim * value_dim)


def scan_seconds(heads: Num, seq: Num, chunk: Num, token_seconds: Num, step: Num, launch: Num) -> Num:
    r"""Seconds of a chunked scan. [s]

    .. math:: t = t_0 + \frac{s}{C} t_1 + r s \tau

    Parameters
    ----------
    heads : Num
        Heads :math:`r` of all sequences on a device. [-]
    seq, chunk : Num
        Tokens :math:`s` of a sequence and :math:`C` of a chunk. [element]
    token_seconds : Num
        Time :math:`\tau` of one token and head where the device is full. [s/element]
    step, launch : Num
        Time :math:`t_1` of a chunk's place in the chain, and :math:`t_0` of empty kernels. [s]

    Notes
    -----
    The form holds 46 runs of flash-linear-attention 0.5 on H200 and GB200, forward and backward, 4 to 64
    heads of 128, 2,048 to 32,768 tokens, within 6%, 2% in the mean [1]_.

    References
    ----------
    .. [1] Qwen, FlashQLA c18a4860, ``benchmark/benchmark_results_H200.txt`` and ``..._GB200.txt`` (MIT).

    Examples
    --------
    >>> round(float(scan_seconds(32, 8192, 64, 1.238e-9, 1.057e-6, 23e-6)), 6)
    0.000483
    """
    return launch + seq / chunk * step + heads * seq * token_seconds


def token_seconds(flops: Num, nbytes: Num, peak: Num, bandwidth: Num) -> Num:
    """Time of one token and head of a scan: its chain of kernels is bound by arithmetic, then by memory. [s]

    Parameters
    ----------
    flops : Num
        Products, over the share of the peak that they reach. [FLOP]
    nbytes : Num
        What goes to memory. [byte]
    peak : Num
        Dense 16-bit peak. [FLOP/s]
    bandwidth : Num
        Memory bandwidth. [byte/s]

    Examples
    --------
    >>> token_seconds(1e6, 1e3, 1e15, 1e12)
    2e-09
    """
    return flops / peak + nbytes / bandwidth
