"""The lightning indexer of DeepSeek's sparse attention: it picks the keys that each query attends to."""

from __future__ import annotations

from planner.inputs.record import Flag, Positive, Record


class Indexer(Record):
    """Scores of every key by a few narrow heads with one key between them; the best ``topk`` are attended to.

    Its query comes from the queries' compressed stream, its key and the weights of its heads from the hidden
    state. Tensor parallelism does not divide it: every rank has it whole. DeepSeek-V3.2 turns halves of its
    queries and keys by position and mixes them by a Hadamard matrix; an ``interleaved`` one, as GLM-5 has it,
    turns neighbours and mixes nothing. Neither is priced.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3.2," arXiv:2512.02556, 2025, sec. 2.1, eq. 1 and 2.
    .. [2] Hugging Face, Transformers, ``models/deepseek_v32/modeling_deepseek_v32.py``.
    .. [3] NVIDIA, Megatron-LM d98e8a64, ``experimental_attention_variant/dsa.py``, ``DSAIndexer``: its linear
       layers are ``duplicated``.
    .. [4] NVIDIA, Megatron-Bridge 067f987d, ``models/glm_moe_dsa/glm5_bridge.py``: no rotation there.
    """

    heads: Positive
    head_dim: Positive
    topk: Positive
    interleaved: Flag = False

    @property
    def width(self) -> int:
        """Width of its queries, all heads together. [element]"""
        return self.heads * self.head_dim

    def params(self, hidden: int, query_rank: int) -> int:
        """Parameters: queries, one key with its layer norm, weights of the heads. [element]

        Examples
        --------
        That of DeepSeek-V3.2:

        >>> Indexer(heads=64, head_dim=128, topk=2048).params(7168, 1536)
        13959424
        """
        return (query_rank or hidden) * self.width + hidden * (self.head_dim + self.heads) + 2 * self.head_dim


class BlockIndexer(Record):
    """Scores of every key by a narrow head for each key/value head; the best ``blocks`` are attended to.

    A block has the score of its best key, and that of the query itself is always among them. Queries and keys
    have norms and turn by position. Nothing teaches the index: its choice has no gradient.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.23.0, ``models/minimax_m3_vl/modeling_minimax_m3_vl.py``,
       ``MiniMaxM3VLIndexer``.
    """

    heads: Positive
    head_dim: Positive
    block: Positive
    blocks: Positive

    @property
    def topk(self) -> int:
        """Keys that a query attends to. [-]"""
        return self.block * self.blocks

    @property
    def width(self) -> int:
        """Width of its queries, all heads together. [element]"""
        return self.heads * self.head_dim

    def params(self, hidden: int) -> int:
        """Parameters: queries, one key, a norm of either. [element]

        Examples
        --------
        That of MiniMax-M3:

        >>> BlockIndexer(heads=4, head_dim=128, block=128, blocks=16).params(6144)
        3932416
        """
        return hidden * (self.width + self.head_dim) + 2 * self.head_dim
