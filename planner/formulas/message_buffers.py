"""Buffers that messages have for themselves: memory that no framework's allocator sees."""

from __future__ import annotations

from planner.numeric import Num, ceil, maximum, minimum, where

SCALED = 128.0
"""Elements of a token that share a scale of four bytes. [-]"""


def hybrid_buffer_bytes(tokens: Num, hidden: float, experts: float, ranks: Num, domain: float) -> Num:
    r"""Bytes that HybridEP keeps on a rank: room for all tokens of all ranks, which may come. [byte]

    .. math:: S = T r \left[c\,(2h + 4e) + \frac{4h}{128}\right] + 3\,T (d - 1) (2h + 4e),
              \quad c = \min(d, 2)

    Parameters
    ----------
    tokens : Num
        Tokens :math:`T` of a rank in a pass. [-]
    hidden : float
        Elements :math:`h` of one, in 16 bit. [element]
    experts : float
        Routed experts of a layer; :math:`e` are those in one of the :math:`d` domains. [-]
    ranks : Num
        Ranks :math:`r` that share them. [-]
    domain : float
        Ranks that NVLink joins. [-]

    Notes
    -----
    Inside one domain dispatch and combine share a buffer. Between domains each has its own, and there are
    three for what is on its way: received, reduced, and received again.

    References
    ----------
    .. [1] DeepEP 2540b8ab, ``csrc/hybrid_ep/buffer/intranode.cu``, ``allocate_dispatch_buffers`` and
       ``allocate_combine_buffers``; 017a5202, ``csrc/hybrid_ep/hybrid_ep.cu``: those between nodes.
    .. [2] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/moe/fused_a2a.py``,
       ``init_hybrid_ep_buffer``: one for all layers, of the tokens of a micro-batch.

    Examples
    --------
    DeepSeek-V3 on 64 ranks of a rack, 4,096 tokens on each:

    >>> round(float(hybrid_buffer_bytes(4096.0, 7168.0, 256.0, 64.0, 72.0)) / 2**30, 2)
    3.8
    """
    domains = ceil(ranks / minimum(ranks, domain))
    each = 2.0 * hidden + 4.0 * experts / domains
    apart = 3.0 * tokens * (domains - 1.0) * each
    shared = tokens * ranks * (minimum(domains, 2.0) * each + 4.0 * hidden / SCALED)
    return where(ranks > 1.0, shared + apart, 0.0)


PEERS = 8.0
"""Ranks of a node, as DeepEP counts them. [-]"""

CHANNELS = 10.0
"""Pairs of multiprocessors that DeepEP takes, of 20; each has buffers of its own. [-]"""

LISTED_BYTES = 128.0 * (8.0 + 4.0 + 4.0) + 8.0
"""Room beside a token: 128 experts with their weights, 128 scales, and where it is from. [byte]"""

QUEUED = ((8.0, 256.0), (64.0, 288.0), (128.0, 560.0))
"""Most ranks, and tokens of a peer that may wait in a channel. [-]"""

QUEUED_MORE = 720.0
"""Such tokens on more ranks. [-]"""

QUEUED_AFAR = 140.0
"""Tokens of a node that may wait: 128, in whole messages of 20 to 32. [-]"""


def deep_buffer_bytes(hidden: float, ranks: Num) -> Num:
    r"""Bytes that DeepEP keeps on a rank: queues of its peers in a node, and of other nodes. [byte]

    .. math:: S = 10 \left[\min(r, 8)\,q\,(2h + b) + 2\,\frac{r}{8}\,q'\,(2h + b + 16)\right]

    Parameters
    ----------
    hidden : float
        Elements :math:`h` of a token, in 16 bit. [element]
    ranks : Num
        Ranks :math:`r`; the second term is there on more than 8. [-]

    References
    ----------
    .. [1] DeepEP 030cdf0a, ``csrc/config.hpp``, ``get_nvl_buffer_size_hint`` and
       ``get_rdma_buffer_size_hint``; ``deep_ep/buffer.py``, ``get_dispatch_config``: tokens :math:`q`.
    .. [2] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/moe/fused_a2a.py``, ``get_buffer``.

    Examples
    --------
    >>> [round(float(deep_buffer_bytes(7168.0, ranks)) / 2**30, 2) for ranks in (8.0, 64.0)]
    [0.31, 0.69]
    """
    queued: Num = QUEUED_MORE
    for most, tokens in reversed(QUEUED):
        queued = where(ranks <= most, tokens, queued)
    each = 2.0 * hidden + LISTED_BYTES
    near = minimum(ranks, PEERS) * queued * each
    afar = 2.0 * maximum(ranks / PEERS, 1.0) * QUEUED_AFAR * (each + 16.0)
    return CHANNELS * where(ranks > 1.0, near + where(ranks > PEERS, afar, 0.0), 0.0)


GATHERED_BUFFERS = 6.0
"""User buffers of messages in the format of the products: those of gathers, and of data gradients. [-]"""

REDUCED_BUFFERS = 4.0
"""User buffers of messages in 16 bit: results of the row-split products and weight gradients. [-]"""


def user_buffer_bytes(tokens: Num, hidden: float, gathered_bytes: float) -> Num:
    r"""Bytes of Transformer Engine's user buffers, one for each product of a layer and pass. [byte]

    .. math:: S = (6 b + 4 \cdot 2)\,T h

    Parameters
    ----------
    tokens : Num
        Tokens :math:`T` of a micro-batch, those of all tensor-parallel ranks. [-]
    hidden : float
        Width :math:`h` of the model. [element]
    gathered_bytes : float
        Bytes :math:`b` of an element that is gathered: 1 where products are in fp8, else 2. [byte/element]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine, ``transformer_engine/pytorch/module/base.py``, ``initialize_ub``: a
       buffer of the given shape for each name, in bytes for those of ``fp8_buf``; 015939ab,
       ``transformer_engine/common/comm_gemm_overlap/comm_gemm_overlap.cpp``, ``CommOverlapBase``.
    .. [2] NVIDIA, Megatron-LM d98e8a64, ``megatron/training/initialize.py``,
       ``_initialize_tp_communicators``: the shape; one set of buffers for all layers.

    Examples
    --------
    >>> float(user_buffer_bytes(8192.0, 8192.0, 2.0)) / 2**30
    1.25
    """
    return (GATHERED_BUFFERS * gathered_bytes + REDUCED_BUFFERS * 2.0) * tokens * hidden
