"""Attention as two batched products with a matrix of scores in memory between them."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.numeric import Num, floor, where


@dataclass(frozen=True)
class UnfusedAttention:
    """Constants of attention as two batched products and a softmax that goes through memory.

    Parameters
    ----------
    rate : float
        FLOP/s of the two products. [FLOP/s]
    misaligned_rate : float
        The same where the head size is no multiple of 8 and the matrix units stay idle. [FLOP/s]
    score_bytes : float
        Bytes moved for each score, forward and backward together. [byte]
    forward_share : float
        Share of these bytes that moves in the forward pass. [-]
    bandwidth : float
        Memory bandwidth that such kernels reach. [byte/s]
    """

    rate: float
    misaligned_rate: float
    score_bytes: float
    forward_share: float
    bandwidth: float


def unfused_attention_forward_seconds(
    batch: Num, heads: Num, seq_q: Num, seq_kv: Num, head_dim: Num, kernel: UnfusedAttention
) -> Num:
    r"""Seconds of attention through a matrix of scores in memory, forward. [s]

    .. math:: t = b a s_q s_{kv} \left(\frac{4 d}{R} + \frac{\phi S}{W}\right)

    Parameters
    ----------
    batch, heads : Num
        Sequences :math:`b` and query heads :math:`a` on this rank. [-]
    seq_q, seq_kv : Num
        Queries and keys; the full square is computed, whatever the mask. [element]
    head_dim : Num
        Head size :math:`d`. [element]
    kernel : UnfusedAttention
        Rate :math:`R`, bytes for each score :math:`S`, forward share :math:`\phi`, bandwidth :math:`W`.

    References
    ----------
    .. [1] V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models,"
       arXiv:2205.05198, section 4.1 (what attention reads and writes for each score).
    """
    scores = batch * heads * seq_q * seq_kv
    traffic = kernel.score_bytes * kernel.forward_share / kernel.bandwidth
    return scores * (4.0 * head_dim / unfused_rate(head_dim, kernel) + traffic)


def unfused_attention_backward_seconds(
    batch: Num, heads: Num, seq_q: Num, seq_kv: Num, head_dim: Num, kernel: UnfusedAttention
) -> Num:
    r"""Seconds of attention through a matrix of scores in memory, backward. [s]

    .. math:: t = b a s_q s_{kv} \left(\frac{8 d}{R} + \frac{(1 - \phi) S}{W}\right)

    Parameters
    ----------
    batch, heads : Num
        Sequences :math:`b` and query heads :math:`a` on this rank. [-]
    seq_q, seq_kv : Num
        Queries and keys. [element]
    head_dim : Num
        Head size :math:`d`. [element]
    kernel : UnfusedAttention
        Rate :math:`R`, bytes for each score :math:`S`, forward share :math:`\phi`, bandwidth :math:`W`.

    References
    ----------
    .. [1] V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models,"
       arXiv:2205.05198, section 4.1.
    """
    scores = batch * heads * seq_q * seq_kv
    traffic = kernel.score_bytes * (1.0 - kernel.forward_share) / kernel.bandwidth
    return scores * (8.0 * head_dim / unfused_rate(head_dim, kernel) + traffic)


def unfused_rate(head_dim: Num, kernel: UnfusedAttention) -> Num:
    r"""FLOP/s of the score products, which leave the matrix units where the head size is odd to them.

    Parameters
    ----------
    head_dim : Num
        Head size. [element]
    kernel : UnfusedAttention
        Both rates.

    Returns
    -------
    Num
        Rate. [FLOP/s]

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide," DA-08817-001, section on tensor core
       requirements.
    """
    return where(floor(head_dim / 8.0) * 8.0 == head_dim, kernel.rate, kernel.misaligned_rate)
