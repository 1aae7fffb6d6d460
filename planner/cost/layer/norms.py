"""The norms of a layer: what they cost, whether a product holds them, and who reads what they write."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapter_messages import keeps_whole_input
from planner.cost.layer.adapters import copied_bytes, input_bytes, norm_bytes
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num, where


def norm_is_fused(case: Case) -> bool:
    """Whether a norm is one kernel: a layer norm is one of PyTorch's own, other norms where a runtime has it.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/nn/modules/normalization.py``, ``LayerNorm``; Hugging Face Transformers
       v5.24.0, ``models/llama/modeling_llama.py``, ``LlamaRMSNorm``, ``models/gpt_neox``, ``GPTNeoXLayer``.
    """
    chained = case.norms.chains_layer_norm
    return case.traits.kernels.fused_norm or (case.model.norm == "layernorm" and not chained)


NORMED_BYTES = 2.0
"""Bytes of an element that a norm keeps in 16 bit: one kernel its input, a chain what it normed. [byte]"""

IN_FP32 = 6.0
"""Bytes beside those from which a chain has normed in fp32: four of its input, and four of what it has
normed. [byte]"""


def norm_copy_bytes(case: Case) -> float:
    """Bytes of an element that a chain of kernels keeps beside what `normed_bytes` tells. [byte]

    What it has normed is needed for the gradient of its weight alone, which frozen weights have none of.

    References
    ----------
    .. [1] PyTorch, ``tools/autograd/derivatives.yaml``, ``mul``: ``self`` is saved for the gradient of
       ``other``.
    """
    copy = case.traits.kernels.unfused_norm_bytes
    if norm_is_fused(case):
        return 0.0
    return copy if case.method.trains_base or copy < IN_FP32 else copy - NORMED_BYTES


def normed_bytes(case: Case) -> float:
    """Bytes of an element that a norm keeps in 16 bit; none of a chain of frozen weights. [byte]"""
    return NORMED_BYTES if norm_is_fused(case) or case.method.trains_base else 0.0


def norm_operator(
    pricer: Pricer, name: str, module: str = "norm", readers: tuple[str, ...] = (), handed: bool = True
) -> Operator:
    """Price a norm of the residual stream; its result is the input of the products called ``readers``.

    One that is not ``handed`` to products is added to the stream, which needs no result of it. A norm that
    reads a copy of its input in fp32 keeps that alone.
    """
    case, model = pricer.case, pricer.case.model
    elements = pricer.local_tokens * model.hidden
    moved = traffic.NORM[norm_is_fused(case)]
    if case.norms.reads_fp32:
        more = traffic.NORM_CAST
        moved = moved._replace(forward=moved.forward + more.forward, backward=moved.backward + more.backward)
    copy = norm_copy_bytes(case)
    result_tokens = pricer.local_tokens if case.tensor_library.regathers else pricer.tokens
    kept = input_bytes(case, readers, module == IN_PRODUCT) * result_tokens
    if keeps_whole_input(case, readers):
        apart = norm_bytes(case, module == IN_PRODUCT) * result_tokens
        apart = apart + copied_bytes(case, readers) * pricer.tokens
        kept = where(pricer.plan.tp > 1, apart, kept)
    return pricer.elementwise(
        name,
        module,
        elements,
        moved,
        kept=normed_bytes(case) * elements * (not case.norms.reads_fp32) + 4 * pricer.local_tokens,
        saved=handed * kept * model.hidden + (copy + 4.0 * case.norms.reads_fp32) * elements,
        params=float(model.norm_params),
    )


HEAD_NORM_COPY = 4.0
"""Bytes of an element that a chained norm of queries and keys keeps beside its result in 16 bit: its input in
fp32 (Megatron-Bridge 067f987d, ``models/minimax_m2/minimax_m2_provider.py``, ``_FullDimRMSNorm``). [byte]"""


def head_norm_operator(pricer: Pricer, normed: Num, params: Num) -> Operator:
    """Price the norms of queries and keys, ``normed`` elements in all."""
    case, chained = pricer.case, pricer.case.norms.chains_head_norms
    moved = traffic.NORM[norm_is_fused(case) and not chained]
    kept = (normed_bytes(case) + (HEAD_NORM_COPY if chained else norm_copy_bytes(case))) * normed
    return pricer.elementwise("qk_norm", "qkv", normed, moved, saved=kept, params=params)


IN_PRODUCT = "norm_in_product"
"""Module of a norm that is one with the product after it: no module that recompute can name."""


def norm_modules(pricer: Pricer, block: Block) -> list[str]:
    """Module of each norm of a layer: its own, or that of the product after it.

    References
    ----------
    .. [1] Megatron-LM, ``megatron/core/models/gpt/gpt_layer_specs.py``: before attention whose queries, keys
       and values are one product, and before a dense feed-forward, the norm is part of the product's layer;
       ``megatron/core/transformer/transformer_layer.py``: recompute of norms leaves such layers as they are.
    .. [2] Megatron-Bridge, ``models/gemma/gemma3_provider.py``: so before the parts of a layer of four norms,
       of which those after the parts are modules of their own; ``models/exaone/exaone4``: so are norms on
       results where there are none before the parts.
    """
    alone = block.mixer is None or block.ffn is None
    after = block.norms == 4 and not alone
    known = block.norms == 2 - alone or after
    results = "norms-after" in pricer.case.model.variants
    if not pricer.case.norms.in_product or not known or block.beside or results:
        return ["norm"] * block.norms
    if alone:
        fused = isinstance(block.mixer or block.ffn, Attention | RecurrentMixer | DenseFfn)
        return [IN_PRODUCT if fused else "norm"]
    one = (isinstance(block.mixer, Attention | RecurrentMixer), isinstance(block.ffn, DenseFfn))
    before = [IN_PRODUCT if fused else "norm" for fused in one]
    return [before[0], "norm", before[1], "norm"] if after else before


def norm_readers(block: Block) -> list[tuple[str, ...]]:
    """Return the linear layers that read the result of each norm of a layer; a norm after a part has none."""
    into: tuple[str, ...] = ("latent_down",) if isinstance(block.mixer, LatentAttention) else ("qkv",)
    into = into * (block.attention is not None) + ("mixer_in",) * (block.recurrent is not None)
    feed: tuple[str, ...] = ("shared_experts_in",) if isinstance(block.ffn, Experts) else ("mlp_in",)
    if block.ffn is None:
        feed = ()
    if block.norms == 1:
        return [into + feed]
    if block.cross is not None:
        return [into, ("cross_query",), feed] + [()] * (block.norms - 3)
    parts = [into, feed] if block.norms < 4 else [into, (), feed, ()]
    return parts + [()] * (block.norms - len(parts))


def block_norms(pricer: Pricer, block: Block, odd: bool) -> list[Operator]:
    """Price the norms of a layer.

    ``odd`` says whether the mixer has an odd number of products. Where every second one is kept, the input of
    the second norm stands for the last product's result, which eager code keeps though nothing needs it; with
    routed experts alone there may be no such product. Norms of attention and feed-forward side by side read
    one input.
    """
    read = zip(norm_modules(pricer, block), norm_readers(block), strict=True)
    norms = [
        norm_operator(pricer, f"norm_{place}", module, readers, handed=block.norms != 4 or not place % 2)
        for place, (module, readers) in enumerate(read)
    ]
    if "parallel-blocks" in pricer.case.model.variants:
        norms[1:] = [norm.with_values(kept=0.0) for norm in norms[1:]]
    alone = isinstance(block.ffn, Experts) and not block.ffn.shared_inner
    if pricer.case.traits.recompute.selective == "second-products" and alone and not odd and block.norms > 1:
        norms[1] = norms[1].with_values(kept=0.0, saved=norms[1].saved + norms[1].kept)
    return norms
