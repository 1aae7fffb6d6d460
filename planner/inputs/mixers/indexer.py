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
