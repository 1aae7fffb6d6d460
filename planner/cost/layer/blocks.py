"""The operators of each kind of block, of the embedding and of the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from planner import numeric
from planner.cost.layer.activations import activation_input_bytes, activation_operator
from planner.cost.layer.adapters import adapter_params, bottleneck_bytes, input_bytes, own_input_bytes
from planner.cost.layer.block_parts import part_operators
from planner.cost.layer.casts import cast_seconds
from planner.cost.layer.cross_attention import cross_operators, distance_operators
from planner.cost.layer.dispatched import bias_traffic, gathered_input_bytes, latent_products
from planner.cost.layer.extras import extra_operators
from planner.cost.layer.norms import block_norms, head_norm_operator, norm_copy_bytes, norm_is_fused
from planner.cost.layer.operators import Operator, Pricer, accumulation_bytes
from planner.cost.layer.recurrent import recurrent_operators
from planner.cost.layer.sparse_attention import absorbed_operators, block_index_operators, index_operators
from planner.cost.layer.tiles import tile_of, tiled_layer
from planner.formulas import elementwise as traffic
from planner.formulas.experts import experts_extrapolated, grouped_gemm_seconds, tiled_rows_in_mean
from planner.formulas.zero_experts import peak_picks
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, Mixer, Recurrent
from planner.numeric import Num, ceil, maximum, where


def residual_operator(pricer: Pricer, name: str) -> Operator:
    """Price the addition to the residual stream, with dropout where the runtime's recipe has it."""
    traits = pricer.case.traits.kernels
    elements = pricer.local_tokens * pricer.case.model.hidden
    moved = traffic.RESIDUAL[traits.fused_activation]
    if traits.dropout:
        moved = traffic.Traffic(
            moved.forward + traffic.DROPOUT.forward, moved.backward + traffic.DROPOUT.backward
        )
    return pricer.elementwise(name, "residual", elements, moved, kept=float(traits.dropout) * elements)


def rotary_traffic(pricer: Pricer) -> traffic.Traffic:
    """Bytes that the runtime's rotary embedding moves. [byte]

    No fused kernel scales what it turns, as positions stretched by YaRN are.

    References
    ----------
    .. [1] Megatron-LM, ``megatron/core/models/common/embeddings/rope_utils.py``,
       ``apply_rotary_pos_emb``: falls back where ``mscale`` is not 1.
    """
    kernels, scaling = pricer.case.traits.kernels, pricer.case.model.numerics.rope_scaling
    if not kernels.fused_rope:
        return pricer.case.rotary_chain.traffic
    stretched = scaling is not None and scaling.stretches_values and not kernels.compiled
    return traffic.ROTARY_HALVES if stretched else traffic.ROTARY[True]


def output_is_copied(pricer: Pricer, mixer: Attention) -> bool:
    """Whether attention's output is written once more for the product after it.

    Hugging Face's code joins the turned part of each head with the rest, head by head; the kernel's output
    lies as its queries do, and not token by token as that product reads it.

    References
    ----------
    .. [1] transformers 5.23, ``models/phi/modeling_phi.py``, ``PhiAttention.forward``, and
       ``integrations/sdpa_attention.py``, ``sdpa_attention_forward``: ``transpose(1, 2).contiguous()``.
    .. [2] PyTorch 2.13, ``aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp``, ``mha_fwd``:
       ``out = at::empty_like(q_padded)``.
    """
    kernels, share = pricer.case.traits.kernels, pricer.case.model.numerics.rope_fraction or 1.0
    joins = pricer.case.rotary_chain.joins
    joined = joins == "always" or (joins == "parts" and share < 1)
    parts = mixer.rotary and joined and not kernels.fused_rope
    return pricer.case.attention_code.copies or parts


def local_kv_heads(pricer: Pricer, kv_heads: int) -> Num:
    """Key/value heads on a rank: at least one, copied where tp exceeds them. [-]"""
    return maximum(kv_heads / pricer.plan.tp, 1.0)


def attention_operators(pricer: Pricer, mixer: Attention) -> list[Operator]:
    """Price grouped-query attention: projections, rotary embedding, core."""
    hidden, tp = pricer.case.model.hidden, pricer.plan.tp
    local_heads = ceil(mixer.heads / tp)
    queries = local_heads * mixer.head_dim
    heads = local_kv_heads(pricer, mixer.kv_heads)
    keys = heads * mixer.head_dim
    outputs = local_heads * mixer.value_head_dim
    made, gate = heads * mixer.made_width, mixer.output_gate * outputs + mixer.head_gate * local_heads
    width = queries + made + gate
    rows, keys = pricer.tokens, keys * mixer.makes_keys
    # Keys that are values too are kept twice: turned, and as they were.
    held = queries + gate + mixer.makes_keys * heads * (mixer.head_dim + mixer.value_head_dim)
    repeated, joined = pricer.case.attention_code.copies, output_is_copied(pricer, mixer)
    twice = joined and not (repeated and pricer.case.attention_kernel.keeps_scores)
    kept = 2 * rows * (held + repeated * 2 * (queries - keys) + twice * queries)
    bias, second = mixer.qkv_biases / mixer.qkv_width, keys / width
    operators = [pricer.linear("qkv", "qkv", rows, hidden, width, saved=kept, bias=bias, second=second)]
    if mixer.rotary:
        turned = rows * (queries + keys)
        keeps = pricer.case.rotary_chain.keeps and not pricer.case.traits.kernels.fused_rope
        copies = 2 * turned if keeps else 0.0
        operators.append(pricer.elementwise("rotary", "qkv", turned, rotary_traffic(pricer), saved=copies))
    if mixer.qk_norm != "none":
        size = mixer.qk_norm_params(local_heads, heads)
        operators.append(head_norm_operator(pricer, rows * (queries + keys), size))
    variants = pricer.case.model.variants
    if "bare-head-norms" in variants and mixer.rotary:
        operators.append(_bare_norm(pricer, "qk_norm", rows * (queries + keys)))
    if "value-norms" in variants and mixer.makes_keys:
        operators.append(_bare_norm(pricer, "value_norm", rows * heads * mixer.value_head_dim))
    if mixer.indexer is not None:
        operators += block_index_operators(pricer, mixer.indexer, heads)
    if joined:
        copied = traffic.HEAD_COPIES[repeated and mixer.kv_heads < mixer.heads]
        operators.append(pricer.elementwise("head_copies", "qkv", rows * queries, copied))
    operators += distance_operators(pricer, mixer)
    operators.append(pricer.attention(mixer, local_heads, local_heads / heads))
    if mixer.sinks and pricer.case.attention_code.rescales_sinks:
        kept = 2 * rows * outputs
        operators.append(pricer.elementwise("sinks", "attn_out", rows * outputs, traffic.SINKS, saved=kept))
    if mixer.output_gate or mixer.head_gate:
        kernels = pricer.case.traits.kernels
        moved = traffic.GATED[kernels.fused_activation or kernels.compiled]
        gated = pricer.elementwise("output_gate", "attn_out", rows * outputs, moved, kept=2 * rows * outputs)
        operators.append(gated)
    operators.append(output_operator(pricer, outputs, mixer.output_bias))
    return operators


def _bare_norm(pricer: Pricer, name: str, normed: Num) -> Operator:
    """Price norms of heads that have no weights: a chain of kernels keeps the copy in fp32 alone."""
    fused = norm_is_fused(pricer.case)
    kept = (2.0 if fused else 4.0) * normed
    return pricer.elementwise(name, "qkv", normed, traffic.NORM[fused], saved=kept)


def output_operator(pricer: Pricer, width: Num, bias: bool) -> Operator:
    """Price the projection of attention's output."""
    hidden, rows = pricer.case.model.hidden, pricer.tokens
    saved = own_input_bytes(pricer.case, "attention_out") * rows * width
    return pricer.linear("attention_out", "attn_out", rows, width, hidden, saved=saved, bias=bias, second=1.0)


UP = ("query_up", "key_value_up")
"""Products that read what latent attention compresses."""


def latent_operators(pricer: Pricer, mixer: LatentAttention) -> list[Operator]:
    """Price latent attention: down- and up-projections with their norms, rotary embedding, core.

    Keys that an indexer picks are attended to as they are compressed (`sparse_attention`).

    Of its products in the model's order (down and up for queries, down and up for keys and values, and the
    result) every second one may run again; where queries have no rank, that is the other down-projection.
    """
    hidden, rows, local = pricer.case.model.hidden, pricer.tokens, pricer.local_tokens
    heads = mixer.heads / pricer.plan.tp
    queries, values = heads * mixer.qk_head_dim, heads * mixer.v_head_dim
    rebuilt = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    ranks = float(mixer.q_lora_rank + mixer.kv_lora_rank)
    down = ranks + mixer.qk_rope_head_dim
    query_rank, key_rank = float(mixer.q_lora_rank or hidden), float(mixer.kv_lora_rank)
    norm, turn = traffic.NORM[norm_is_fused(pricer.case)], rotary_traffic(pricer)
    kept = (
        2.0 if pricer.case.method.trains_base else input_bytes(pricer.case, UP, pricer.case.norms.in_product)
    )
    compressed = (kept + norm_copy_bytes(pricer.case)) * local * ranks
    pairs = rows * heads * mixer.qk_rope_head_dim
    up, ranked = "mla_up_proj", float(mixer.q_lora_rank > 0)
    compress = pricer.linear("latent_down", "qkv", local, hidden, down, saved=2 * local * down)
    query = pricer.linear("query_up", up, rows, query_rank, queries, saved=2 * rows * queries)
    rebuild = pricer.linear("key_value_up", up, rows, key_rank, rebuilt, saved=2 * rows * (queries + values))
    index = mixer.indexer
    return [
        compress.with_values(second=1.0 - ranked),
        pricer.elementwise("latent_norm", up, local * ranks, norm, saved=compressed, params=ranks),
        query.with_values(second=ranked),
        *(absorbed_operators(pricer, mixer) if index else [rebuild.with_values(second=ranked)]),
        pricer.elementwise("rotary", "qkv", pairs, turn),
        pricer.attention(mixer, heads, heads if index else 1.0),
        *(index_operators(pricer, mixer, index) if index else []),
        output_operator(pricer, values, mixer.output_bias).with_values(second=1.0 - ranked),
    ]


def odd_products(mixer: Mixer | None) -> bool:
    """Whether attention has an odd number of products, so that after it the first one runs again."""
    return isinstance(mixer, LatentAttention) and mixer.q_lora_rank > 0


def dense_operators(pricer: Pricer, ffn: DenseFfn, odd: bool) -> list[Operator]:
    """Price a feed-forward layer: two products around an activation, ``odd`` ones after an odd number."""
    shape, tiles = (ffn.inner, ffn.gated, ffn.bias), pricer.case.traits.kernels.mlp_tiles
    if tiles > 1.0:
        return tiled_layer(pricer, tiles, _feed_forward(tile_of(pricer, tiles), "mlp", shape, odd))
    return _feed_forward(pricer, "mlp", shape, odd)


def _feed_forward(pricer: Pricer, module: str, shape: tuple[int, bool, bool], odd: bool) -> list[Operator]:
    inner, gated, bias = shape
    hidden, rows, width = pricer.case.model.hidden, pricer.tokens, inner / pricer.plan.tp
    wide = 2 * width if gated else width
    kept = activation_input_bytes(pricer.case, gated) * rows * wide
    first, last = 0.5 if gated else float(odd), float(odd == gated)
    return [
        pricer.linear(f"{module}_in", module, rows, hidden, wide, saved=kept, bias=bias, second=first),
        activation_operator(pricer, f"{module}_activation", module, rows * width, gated),
        pricer.linear(f"{module}_out", module, rows, width, hidden, bias=bias, second=last),
    ]


def expert_operators(pricer: Pricer, ffn: Experts, odd: bool) -> list[Operator]:
    """Price a mixture of experts: router, permutation, products of the busiest rank, shared experts.

    Grouped products are none of the products of which every second one is kept: all of them run again, but
    for the last where compiled code needs only what a message brought back of it; so does the router's.
    What is multiplied by a score or a gate is kept for the gradient of these.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``torchtitan/distributed/activation_checkpoint.py``, ``SelectiveAC``, and
       PyTorch 2.13, ``torch/_functorch/partitioners.py``, ``get_default_op_list``: what is kept names
       ``mm`` and ``all_to_all_single``, not ``_grouped_mm``; ``moe.router.gate`` is always recomputed.
    """
    case, plan = pricer.case, pricer.plan
    hidden, local, sent = case.model.hidden, pricer.local_tokens, float(ffn.width(case.model.hidden))
    experts, idle = ffn.experts / plan.ep, local * (ffn.topk - ffn.picks) * hidden
    every = case.expert_code.every
    picks = peak_picks(ffn.topk, ffn.picks, local) * case.workload.imbalance
    rows = local * (float(ffn.experts) if every else picks) * plan.etp
    width = ffn.inner / plan.etp
    wide = 2 * width if ffn.gated else width
    sorted_bytes = input_bytes(case, ("experts_in",)) * rows * sent * (2.0 if every else 1.0)
    moved = traffic.EVERY_EXPERT if every else traffic.Traffic(8.0, 8.0)
    before = activation_input_bytes(case, ffn.gated) * rows * wide
    scores = 8 * local * ffn.choices + 4 * local * hidden * case.router.reads_fp32
    router = pricer.linear("router", "router", local, hidden, float(ffn.choices), saved=scores)
    weighed = case.traits.experts.result_bytes * rows * sent * (not every)
    into = grouped_operator(pricer, "experts_in", rows, experts, (sent, wide), saved=before)
    kept = where(plan.ep > 1, weighed * case.expert_code.kept_apart, weighed)
    out = grouped_operator(pricer, "experts_out", rows, experts, (width, sent), saved=kept)
    operators = [
        router.with_values(second=1.0),
        pricer.elementwise("permute", "moe", rows * sent, moved, saved=sorted_bytes),
        into.with_values(second=1.0),
        activation_operator(pricer, "experts_activation", "moe_act", rows * width, ffn.gated),
        out.with_values(second=where(plan.ep > 1, float(not case.traits.kernels.compiled), 1.0)),
    ]
    if ffn.bias and not case.traits.kernels.compiled:
        operators.append(pricer.elementwise("experts_bias", "moe", rows * sent, bias_traffic(case, plan)))
    if ffn.latent:
        operators += latent_products(pricer, sent)
    if ffn.zero_experts:
        operators.append(pricer.elementwise("zero_experts", "moe", idle, traffic.ZERO_EXPERTS))
    if ffn.shared_inner:
        shared = _feed_forward(pricer, "shared_experts", (ffn.shared_inner, ffn.gated, ffn.bias), odd)
        gated = 2.0 * local * hidden * ffn.shared_gate
        into, *activation, out = shared
        into = into.with_values(saved=into.saved + gathered_input_bytes(pricer))
        operators += [into, *activation, out.with_values(saved=out.saved + gated)]
    return operators


GROUPED_CASTS = {"mxfp8": "fp8_block"}
"""Precisions and the curve that times the casts of routed experts, where it is not that of dense layers: one
kernel casts the tokens of all experts, and runs with experts bear no slower one than the tables have.
"""


def grouped_operator(
    pricer: Pricer, name: str, rows: Num, experts: Num, shape: tuple[Num, Num], saved: Num
) -> Operator:
    """Price one product of every local expert, forward and both gradients."""
    case = pricer.case
    inputs, outputs = shape
    each = rows / experts
    curve = case.kernels.experts[case.precision.linear]
    dense = case.kernels.gemm[case.precision.linear]
    cast = case.kernels.gemm.get(GROUPED_CASTS.get(case.precision.linear, ""), dense)
    derate = case.derate
    tiled = tiled_rows_in_mean(each, curve)
    forward = curve.launch / 2 + grouped_gemm_seconds(tiled, outputs, inputs, experts, curve)
    forward = forward + cast_seconds(case, rows * inputs, cast)
    data = grouped_gemm_seconds(tiled, inputs, outputs, experts, curve)
    data = data + cast_seconds(case, rows * outputs, cast)
    weight = grouped_gemm_seconds(outputs, inputs, each, experts, curve) * case.method.trains_base
    params = experts * inputs * outputs
    accumulate = params * accumulation_bytes(case) / case.kernels.memory_bandwidth * case.method.trains_base
    trained = params if case.method.trains_base else experts * adapter_params(case, name, inputs, outputs)
    outside = experts_extrapolated(each, curve) / derate
    return Operator(
        name,
        "moe",
        forward=forward / derate,
        backward=(data + weight) / derate + accumulate,
        saved=saved + bottleneck_bytes(case, name, rows),
        result=2 * rows * outputs,
        flops=2 * rows * inputs * outputs,
        weight_gradient=weight / derate + accumulate,
        params=params,
        stored=pricer.stored_bytes(params, trained),
        trained=trained,
        expert=True,
        outside_forward=outside * forward,
        outside_backward=outside * (data + weight),
    )


MIXERS: dict[type, Callable[..., list[Operator]]] = {
    Attention: attention_operators,
    LatentAttention: latent_operators,
    **dict.fromkeys(get_args(Recurrent), recurrent_operators),
}
FFNS: dict[type, Callable[..., list[Operator]]] = {DenseFfn: dense_operators, Experts: expert_operators}


def block_operators(pricer: Pricer, block: Block) -> list[Operator]:
    """Price every operator of one layer."""
    if block.parts:
        return part_operators(pricer, block.parts)
    ffn, odd = block.ffn, odd_products(block.mixer)
    operators = block_norms(pricer, block, odd)
    for one in block.mixers:
        operators += MIXERS[type(one)](pricer, one)
    operators += [residual_operator(pricer, "sum_of_mixers")] * (block.beside is not None)
    operators += [residual_operator(pricer, "residual_attention")] * bool(block.mixers)
    if block.cross is not None:
        operators += [*cross_operators(pricer, block.cross), residual_operator(pricer, "residual_cross")]
    if ffn is not None:
        operators += [*FFNS[type(ffn)](pricer, ffn, odd), residual_operator(pricer, "residual_mlp")]
    return operators + extra_operators(pricer, block.extras)


def spared_product(pricer: Pricer, block: Block, operators: list[Operator]) -> Operator | None:
    """Return the product before which recompute of a layer may stop, or None where its result is needed.

    Backward needs the result of routed experts for the gradient of their weights in the sum, of a gated
    shared expert for its gate's, and of any feed-forward for a norm after it or for the mask of dropout. One
    in tiles is a single function, which runs to its end; a block of parts ends with a gate.

    References
    ----------
    .. [1] PyTorch, ``torch/utils/checkpoint.py``, ``_StopRecomputationError``: recompute stops when the last
       tensor that was saved is there again.
    """
    ffn = block.ffn
    summed = isinstance(ffn, Experts) and (not ffn.shared_inner or ffn.shared_gate)
    tiled = isinstance(ffn, DenseFfn) and pricer.case.traits.kernels.mlp_tiles > 1.0
    more = block.norms > 2 + (block.cross is not None)
    if block.parts or block.extras or tiled or summed or more or pricer.case.traits.kernels.dropout:
        return None
    return [operator for operator in operators if numeric.any(operator.flops)][-1]
