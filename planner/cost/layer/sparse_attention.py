"""Attention to keys that an indexer picks: products on compressed keys, the index, and its own training."""

from __future__ import annotations

from planner.cost.layer.attention_core import CoreSize, attention_seconds, mean_keys
from planner.cost.layer.exchange import NO_EXCHANGE, Exchange
from planner.cost.layer.norms import norm_is_fused
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.formulas.collectives import ring_seconds, ring_sent_bytes
from planner.inputs.mixers.indexer import BlockIndexer, Indexer
from planner.inputs.model import Block, LatentAttention
from planner.numeric import Num, minimum, where

SCORE_BYTES = 4.0
"""Bytes of a score of the index, written once and read once to pick the best. [byte]"""

PICKED_BYTES = 4.0
"""Bytes of the number of a picked key, which backward needs. [byte]"""

BLOCK_ROWS = 8192.0
"""Queries whose scores are in memory at a time. [-]

References
----------
.. [1] NVIDIA, Megatron-LM d98e8a64, ``experimental_attention_variant/dsa.py``: ``fused_indexer_block_size``.
"""


def absorbed_operators(pricer: Pricer, mixer: LatentAttention) -> list[Operator]:
    """Price the two products that take the place of keys and values rebuilt: of queries, and of the result.

    They have the weights and FLOPs of the product that rebuilds keys and values.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``experimental_attention_variant/absorbed_mla.py``.
    """
    rows, heads, rank = pricer.tokens, mixer.heads / pricer.plan.tp, float(mixer.kv_lora_rank)
    queries, values = heads * mixer.core_widths[0], heads * mixer.v_head_dim
    nope = float(mixer.qk_nope_head_dim)
    return [
        pricer.linear("query_absorb", "mla_up_proj", rows, nope, heads * rank, saved=2 * rows * queries),
        pricer.linear("value_up", "mla_up_proj", rows, rank, values, saved=2 * rows * values),
    ]


def index_operators(pricer: Pricer, mixer: LatentAttention, indexer: Indexer) -> list[Operator]:
    """Price the index, which every tensor-parallel rank computes whole: products, norm, scores."""
    hidden, rows = float(pricer.case.model.hidden), pricer.tokens
    query_rank, module = float(mixer.q_lora_rank or hidden), "core_attn"
    widths = {"index_query": (query_rank, indexer.width), "index_key": (hidden, indexer.head_dim)}
    widths["index_weights"] = (hidden, indexer.heads)
    products = [
        pricer.linear(name, module, rows, inputs, float(width), saved=2 * rows * width)
        for name, (inputs, width) in widths.items()
    ]
    norm, narrow = traffic.NORM[norm_is_fused(pricer.case)], float(indexer.head_dim)
    normed = pricer.elementwise("index_norm", module, rows * narrow, norm, params=2 * narrow)
    return [*products, normed, index_scores(pricer, mixer, indexer)]


def index_scores(pricer: Pricer, mixer: LatentAttention, indexer: Indexer) -> Operator:
    r"""Price the scores of all keys, the choice of the best, and backward the loss that teaches the index.

    .. math:: F = 2 s \frac{s}{2} h_I d_I, \quad F_b = s k \left(2 a d_c + 4 h_I d_I\right)

    Forward one product where attention has two; nothing is rebuilt of the keys that were not picked: the
    target is the main attention on the picked ones, summed over heads, and the index learns on these alone.
    No training run has measured these kernels, so all of their time counts as extrapolated.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3.2," arXiv:2512.02556, 2025, sec. 2.1, eq. 1 and 4.
    """
    case, plan, seq = pricer.case, pricer.plan, float(pricer.case.workload.seq_len)
    rows, share, kernel = plan.micro_batch * indexer.heads, 1.0 / plan.cp, case.attention_kernel
    seen = mean_keys(seq, None, False, case.workload.attended_tokens)
    picked = mean_keys(seq, indexer.topk, False, case.workload.attended_tokens)
    narrow, heads = float(indexer.head_dim), float(indexer.heads)
    whole, _, _ = attention_seconds(case, kernel, CoreSize(rows, seq, share, seen, narrow, heads))
    few, _, _ = attention_seconds(case, kernel, CoreSize(rows, seq, share, picked, narrow, heads))
    main = mixer.heads / plan.tp
    width = sum(mixer.core_widths) / 2
    every_row = CoreSize(plan.micro_batch * main, seq, share, picked, width, main)
    again, _, _ = attention_seconds(case, kernel, every_row)
    slow = 1.0 / (case.derate * case.traits.attention.share)
    moved = 2 * SCORE_BYTES * pricer.tokens * seen / case.kernels.memory_bandwidth
    forward = 0.5 * whole * slow + moved
    backward = (0.5 * again + few) * slow * case.method.trains_base
    return Operator(
        "index_scores",
        "core_attn",
        forward=forward,
        backward=backward,
        saved=PICKED_BYTES * pricer.tokens * min(float(indexer.topk), seq),
        result=SCORE_BYTES * minimum(pricer.tokens, BLOCK_ROWS) * seq,
        flops=2.0 * pricer.tokens * seen * indexer.width,
        outside_forward=forward,
        outside_backward=backward,
    )


def block_index_operators(pricer: Pricer, indexer: BlockIndexer, heads: Num) -> list[Operator]:
    """Price the index of blocks of keys, of so many heads of a rank: products, norms, scores; forward alone.

    A block's score is written once and read once, as if one kernel made it. No training run has measured it,
    so all of its time counts as extrapolated.
    """
    case, plan, seq = pricer.case, pricer.plan, float(pricer.case.workload.seq_len)
    hidden, narrow, rows = float(case.model.hidden), float(indexer.head_dim), pricer.tokens
    still = {"backward": 0.0, "weight_gradient": 0.0}
    norm = traffic.NORM[norm_is_fused(case)]
    made = [
        pricer.linear("index_query", "core_attn", rows, hidden, heads * narrow).with_values(**still),
        pricer.linear("index_key", "core_attn", rows, hidden, narrow).with_values(**still),
        pricer.elementwise(
            "index_norm", "core_attn", rows * (heads + 1) * narrow, norm, params=2 * narrow
        ).with_values(**still),
    ]
    seen = mean_keys(seq, None, False, case.workload.attended_tokens)
    size = CoreSize(plan.micro_batch * heads, seq, 1.0 / plan.cp, seen, narrow, heads)
    whole, _, _ = attention_seconds(case, case.attention_kernel, size)
    moved = 2 * SCORE_BYTES * rows * heads * seen / indexer.block / case.kernels.memory_bandwidth
    forward = 0.5 * whole / (case.derate * case.traits.attention.share) + moved
    scores = Operator(
        "index_scores",
        "core_attn",
        forward=forward,
        backward=0.0,
        saved=PICKED_BYTES * rows * heads * min(float(indexer.blocks), seq / indexer.block),
        result=SCORE_BYTES * heads * minimum(rows, BLOCK_ROWS) * seq / indexer.block,
        flops=2.0 * rows * seen * heads * narrow,
        outside_forward=forward,
    )
    return [*made, scores]


def index_exchange(pricer: Pricer, block: Block) -> Exchange:
    """Price what a layer's index, if it has one, sends between tensor-parallel ranks: inputs and target.

    The inputs are gathered, and the target is summed over the heads of all ranks.

    Its inputs take no gradient, and its weights' gradients are averaged once a step, which is small.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``experimental_attention_variant/dsa.py``: ``forward_before_topk``,
       ``compute_dsa_indexer_loss``.
    """
    case, plan, mixer = pricer.case, pricer.plan, block.mixer
    if not isinstance(mixer, LatentAttention) or mixer.indexer is None:
        return NO_EXCHANGE
    indexer = mixer.indexer
    streams = case.model.hidden + (mixer.q_lora_rank or case.model.hidden)
    gathered: Num = 2.0 * pricer.tokens * streams * float(case.sequence_parallel)
    picked = min(float(indexer.topk), float(case.workload.seq_len))
    summed = 2.0 * SCORE_BYTES * pricer.tokens * picked * case.method.trains_base
    nbytes = gathered + summed
    seconds = where(plan.tp > 1, ring_seconds(nbytes, plan.tp, 1.0, case.tensor_tiers), 0.0)
    return Exchange(seconds, 0.0, ring_sent_bytes(nbytes, plan.tp), 0.0)
