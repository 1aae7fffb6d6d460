"""Attention of a decoder's layer to what an encoder made of another sequence, and its biases by distance."""

from __future__ import annotations

from planner.cost.layer.attention_core import CoreSize, attention_outside, attention_seconds
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.formulas.attention import attention_flops
from planner.inputs.model import Attention

MODULE = "cross"
"""Module of its products, which recompute of single modules does not name."""


def cross_operators(pricer: Pricer, mixer: Attention) -> list[Operator]:
    r"""Price the products of queries, of the encoder's keys and values, the core, and the result's product.

    Queries are made of the decoder's :math:`n` tokens, keys and values of the encoder's :math:`m`, so that
    the core has :math:`n m` scores a head, none of them masked. What the encoder made is one tensor, kept
    once for all layers.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention Is All You Need," arXiv:1706.03762, 2017, sec. 3.2.3.
    .. [2] Hugging Face, Transformers v5.23.0, ``models/bart/modeling_bart.py``, ``BartAttention``:
       ``key_value_states``.
    """
    case, plan = pricer.case, pricer.plan
    hidden, width = float(case.model.hidden), float(mixer.heads * mixer.head_dim)
    rows, sources = pricer.tokens, plan.micro_batch * source_tokens(pricer)
    made, biases = 2.0 * width, mixer.qkv_bias * 0.5 * (1.0 + mixer.key_bias)
    return [
        pricer.linear(
            "cross_query", MODULE, rows, hidden, width, saved=2 * rows * width, bias=float(mixer.qkv_bias)
        ),
        pricer.linear(
            "cross_key_value", MODULE, sources, hidden, made, saved=2 * sources * made, bias=biases
        ),
        _core(pricer, mixer),
        pricer.linear("cross_out", MODULE, rows, width, hidden, bias=float(mixer.output_bias)),
    ]


def distance_operators(pricer: Pricer, mixer: Attention) -> list[Operator]:
    """Price the biases of scores by distance where a layer holds their table: made once for all layers.

    They are one number for each head and pair of tokens, the same for all sequences, and are there until the
    last layer has read them.

    References
    ----------
    .. [1] C. Raffel et al., arXiv:1910.10683, 2019, sec. 2.1; Hugging Face, Transformers v5.23.0,
       ``models/t5/modeling_t5.py``, ``T5Attention.compute_bias``.
    """
    if not mixer.distances:
        return []
    elements = float(mixer.heads) * float(pricer.case.workload.seq_len) ** 2
    table = float(mixer.distances * mixer.heads)
    made = pricer.elementwise("distance_biases", MODULE, elements, traffic.EMBEDDING, params=table)
    return [made.with_values(kept=2.0 * elements)]


def source_tokens(pricer: Pricer) -> float:
    """Tokens that the encoder makes of one sequence. [element]"""
    encoder = pricer.case.model.encoder
    if encoder is None:
        raise AssertionError("cross attention without an encoder")
    return float(encoder.patches * pricer.case.workload.images)


def _core(pricer: Pricer, mixer: Attention) -> Operator:
    """Price the core as that of the encoder's length, of which the decoder's queries are a share."""
    case, plan = pricer.case, pricer.plan
    length, width = float(case.workload.seq_len), float(mixer.head_dim)
    source = source_tokens(pricer)
    kernel, heads = case.attention_kernel, plan.micro_batch * float(mixer.heads)
    share = length / source
    forward, backward, saved = attention_seconds(case, kernel, CoreSize(heads, source, share, source, width))
    slow = 1.0 / (case.derate * case.traits.attention.share)
    outside = attention_outside(case, kernel, source, width) * slow
    return Operator(
        "cross_attention",
        "core_attn",
        forward=forward * slow,
        backward=backward * slow,
        kept=2 * pricer.tokens * mixer.heads * mixer.value_head_dim,
        saved=saved,
        result=2.0 * heads * length * source if kernel.keeps_scores else 0.0,
        flops=attention_flops(plan.micro_batch, float(mixer.heads), length, source, width),
        outside_forward=outside * forward,
        outside_backward=outside * backward,
    )
