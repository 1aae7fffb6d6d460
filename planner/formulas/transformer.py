"""Parameter counts of a transformer's parts. All counts are elements."""

from __future__ import annotations

from planner.numeric import Num


def latent_attention_params(
    hidden: Num, heads: Num, q_rank: Num, kv_rank: Num, nope_dim: Num, rope_dim: Num, value_dim: Num
) -> Num:
    """Weights of multi-head latent attention, its two inner norms included. [element]

    Parameters
    ----------
    hidden : Num
        Model width. [element]
    heads : Num
        Heads. [-]
    q_rank, kv_rank : Num
        Ranks of the query and key/value compression; a query rank of 0 is a plain projection. [element]
    nope_dim, rope_dim, value_dim : Num
        Widths of one head: query and key without rotation, with rotation, and value. [element]

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V2," arXiv:2405.04434, 2024, eqs. 9-19 and appendix C.

    Examples
    --------
    DeepSeek-V3, one layer:

    >>> latent_attention_params(7168, 128, 1536, 512, 128, 64, 128)
    187107328
    """
    query_width = heads * (nope_dim + rope_dim)
    compressed = hidden * q_rank + q_rank + q_rank * query_width
    query = compressed + (q_rank == 0) * hidden * query_width
    key_value = hidden * (kv_rank + rope_dim) + kv_rank + kv_rank * heads * (nope_dim + value_dim)
    return query + key_value + heads * value_dim * hidden


def ffn_params(hidden: Num, inner: Num, matrices: Num) -> Num:
    """Weights of a feed-forward layer: 3 matrices when gated, 2 when plain.

    Parameters
    ----------
    hidden, inner : Num
        Model width and inner width. [element]
    matrices : Num
        Weight matrices of hidden x inner elements. [-]

    Returns
    -------
    Num
        Parameters, without biases. [element]

    References
    ----------
    .. [1] N. Shazeer, "GLU Variants Improve Transformer," arXiv:2002.05202, 2020, sec. 2.

    Examples
    --------
    >>> ffn_params(4096, 14336, 3)
    176160768
    """
    return matrices * hidden * inner
