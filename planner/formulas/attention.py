"""Fused attention: a curve for each head size.

FLOPs are counted on the pairs of query and key that the mask lets through: half of the square where
attention is causal.
"""

from __future__ import annotations

from typing import Final

from planner.dataclasses import dataclass, replace
from planner.formulas.size_grid import SizeGrid, corrected
from planner.numeric import Num, minimum, where

BACKWARD_FLOPS = 2.5
"""Five products instead of two: the scores are computed again. [-]"""

CHOSEN: Final = "what torch chooses"
"""Kernel of a curve that was measured through PyTorch, which picks one of its own."""


@dataclass(frozen=True)
class AttentionCurve:
    """Constants of a fused kernel on one accelerator, for one head size and data type.

    Parameters
    ----------
    rate : float
        FLOP/s that an endlessly long sequence approaches, forward. [FLOP/s]
    half_keys : float
        Visible keys for each query at which half of that is reached, forward. [element]
    half_queries : float
        Query rows over all heads and sequences at which half of it is reached. [element]
    launch : float
        Time of an empty call. [s]
    backward_rate : float
        FLOP/s of the backward pass, on 2.5 times the FLOPs of the forward pass. [FLOP/s]
    backward_half_keys : float
        As ``half_keys``, backward. [element]
    seq_range : (float, float)
        Sequence lengths that were measured. [element]
    shared_half_keys : float
        What comes to ``half_keys`` where every query head has keys and values of its own, divided by the
        heads that share them. [element]
    residuals, backward_residuals : SizeGrid, optional
        What a machine's own measurement found beside the law, by sequence length, heads of all sequences, and
        heads that share keys and values; curves that ship have none.
    chosen : bool
        Whether it is of the kernel that PyTorch chose on the machine that was measured, not of the fastest
        that the accelerator has.
    """

    rate: float
    half_keys: float
    half_queries: float
    launch: float
    backward_rate: float
    backward_half_keys: float
    seq_range: tuple[float, float]
    shared_half_keys: float = 0.0
    residuals: SizeGrid | None = None
    backward_residuals: SizeGrid | None = None
    chosen: bool = False


Head = tuple[float, AttentionCurve]
"""Head size and its curve."""


def visible_keys(seq_q: Num, seq_kv: Num, window: Num) -> Num:
    r"""Mean number of keys that a query sees where nobody looks ahead.

    .. math:: v = \frac{F(s_{kv}) - F(s_{kv} - s_q)}{s_q}, \quad F(x) = u \left(x - \frac{u}{2}\right),
              \quad u = \min(x, w)

    Parameters
    ----------
    seq_q : Num
        Queries :math:`s_q`, the last ones of the sequence. [element]
    seq_kv : Num
        Keys :math:`s_{kv} \ge s_q`. [element]
    window : Num
        Keys :math:`w` within reach of a query; the sequence length or more where all are. [element]

    Returns
    -------
    Num
        Keys for each query: half of the sequence for plain causal attention. [element]

    References
    ----------
    .. [1] I. Beltagy, M. E. Peters, A. Cohan, "Longformer: The Long-Document Transformer,"
       arXiv:2004.05150, section 3.1.

    Examples
    --------
    >>> float(visible_keys(4096.0, 4096.0, 4096.0)), float(visible_keys(1024.0, 4096.0, 512.0))
    (2048.0, 512.0)
    """
    before = seq_kv - seq_q
    reach_end = minimum(seq_kv, window)
    reach_start = minimum(before, window)
    pairs = reach_end * (seq_kv - 0.5 * reach_end) - reach_start * (before - 0.5 * reach_start)
    result: Num = pairs / seq_q
    return result


def attention_flops(batch: Num, heads: Num, seq_q: Num, visible: Num, head_dim: Num) -> Num:
    r"""FLOPs of the two products of one attention layer, forward.

    .. math:: F = 4 b a s v d

    Parameters
    ----------
    batch, heads : Num
        Sequences :math:`b` and query heads :math:`a`. [-]
    seq_q : Num
        Queries :math:`s` of one sequence. [element]
    visible : Num
        Keys :math:`v` that a query sees in the mean. [element]
    head_dim : Num
        Head size :math:`d`; the mean of both where scores and values have different ones. [element]

    Returns
    -------
    Num
        Work, two operations for each multiplication. [FLOP]

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,"
       arXiv:2307.08691, section 4.1.

    Examples
    --------
    >>> attention_flops(1.0, 32.0, 4096.0, 2048.0, 128.0)
    137438953472.0
    """
    return 4.0 * batch * heads * seq_q * visible * head_dim


def attention_forward_seconds(
    batch: Num,
    heads: Num,
    seq_q: Num,
    visible: Num,
    head_dim: Num,
    curve: AttentionCurve,
    shared: Num = 1.0,
) -> Num:
    r"""Seconds of a fused attention kernel, forward.

    .. math:: t = \left(t_0 + \frac{4 d (v + v_0 + v_1 / g)(b a s + q_0)}{R}\right) (1 + r)

    Parameters
    ----------
    batch, heads : Num
        Sequences :math:`b` and query heads :math:`a` on this rank. [-]
    seq_q : Num
        Queries :math:`s` of one sequence. [element]
    visible : Num
        Keys :math:`v` that a query sees in the mean; see ``visible_keys``. [element]
    head_dim : Num
        Head size :math:`d`. [element]
    curve : AttentionCurve
        Rate :math:`R`, half-rate lengths :math:`v_0`, :math:`v_1`, :math:`q_0` and launch time :math:`t_0`.
    shared : Num
        Query heads :math:`g` for each key and value head; the residual :math:`r` of a measured curve knows
        them too. [-]

    Returns
    -------
    Num
        Elapsed time; without residuals monotone in every size. [s]

    Notes
    -----
    Keys and values that one query head alone reads come from memory, those of a group from cache but once.

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,"
       arXiv:2307.08691, section 3.2 (rows are spread over the multiprocessors).
    .. [2] R. W. Hockney, "The Science of Computer Benchmarking," SIAM, 1996, section 1.3 (half-performance
       length).
    """
    rows = batch * heads * seq_q + curve.half_queries
    keys = visible + (curve.half_keys + curve.shared_half_keys / shared)
    seconds = curve.launch + (4.0 / curve.rate) * (head_dim * keys * rows)
    return corrected(seconds, curve.residuals, seq_q, batch * heads, shared)


def attention_backward_seconds(
    batch: Num,
    heads: Num,
    seq_q: Num,
    visible: Num,
    head_dim: Num,
    curve: AttentionCurve,
    shared: Num = 1.0,
) -> Num:
    r"""Seconds of a fused attention kernel, backward. [s]

    .. math:: t = \left(t_0 + \frac{2.5 \cdot 4 d (v + v_b)(b a s + q_0)}{R_b}\right) (1 + r)

    Parameters
    ----------
    batch, heads : Num
        Sequences :math:`b` and query heads :math:`a` on this rank. [-]
    seq_q : Num
        Queries :math:`s` of one sequence. [element]
    visible : Num
        Keys :math:`v` that a query sees in the mean. [element]
    head_dim : Num
        Head size :math:`d`. [element]
    curve : AttentionCurve
        Backward rate :math:`R_b`, half-rate lengths :math:`v_b`, :math:`q_0`, launch :math:`t_0`.
    shared : Num
        Query heads for each key and value head, which the residual :math:`r` of a measured curve knows. [-]

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,"
       arXiv:2307.08691, section 4.1 (2.5 times the forward FLOPs).
    """
    rows = batch * heads * seq_q + curve.half_queries
    work = head_dim * (visible + curve.backward_half_keys) * rows
    seconds = curve.launch + (BACKWARD_FLOPS * 4.0 / curve.backward_rate) * work
    return corrected(seconds, curve.backward_residuals, seq_q, batch * heads, shared)


def curve_between(head_dim: float, narrow: Head, wide: Head) -> AttentionCurve:
    r"""Curve of a head size that was not measured, from those of two that were.

    .. math:: \frac{1}{R} = \frac{1 - w}{R_1} + \frac{w}{R_2}, \quad w = \frac{1/d - 1/d_1}{1/d_2 - 1/d_1}

    Parameters
    ----------
    head_dim : float
        Head size :math:`d`, at most :math:`d_2`. [element]
    narrow, wide : (float, AttentionCurve)
        The measured sizes :math:`d_1 < d_2`, each with its curve of rate :math:`R_1`, :math:`R_2`.

    Returns
    -------
    AttentionCurve
        All constants between the two in the same shares; below :math:`d_1` those of the narrow one, with a
        rate that is no higher.

    Notes
    -----
    A score takes two products, which grow with the head size, and an exponential, which does not: its time is
    a line in :math:`d`, so that time for each FLOP is one in :math:`1/d`.

    References
    ----------
    .. [1] J. Shah et al., "FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision,"
       arXiv:2407.08608, section 3.1 (exponentials beside products).
    """
    (small, near), (large, far) = narrow, wide
    share = (1.0 / head_dim - 1.0 / small) / (1.0 / large - 1.0 / small)
    mixed = max(share, 0.0)

    def between(one: float, other: float) -> float:
        return (1.0 - mixed) * one + mixed * other

    def rate(one: float, other: float) -> float:
        seconds = (1.0 - share) / one + share / other
        return 1.0 / (seconds if share > 0 else max(seconds, 1.0 / one))

    return replace(
        far if mixed > 0.5 else near,
        rate=rate(near.rate, far.rate),
        half_keys=between(near.half_keys, far.half_keys),
        half_queries=between(near.half_queries, far.half_queries),
        launch=between(near.launch, far.launch),
        backward_rate=rate(near.backward_rate, far.backward_rate),
        backward_half_keys=between(near.backward_half_keys, far.backward_half_keys),
        shared_half_keys=between(near.shared_half_keys, far.shared_half_keys),
    )


def attention_extrapolated(seq: Num, curve: AttentionCurve) -> Num:
    """One where the sequence length is outside those that the curve was fitted to, else zero. [-]

    Parameters
    ----------
    seq : Num
        Keys of one sequence. [element]
    curve : AttentionCurve
        Its range.
    """
    result: Num = where((seq < curve.seq_range[0]) | (seq > curve.seq_range[1]), 1.0, 0.0)
    return result
