"""What stands before the first layer and after the last: embedding, head and loss."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import copy_bytes
from planner.cost.layer.norms import norm_operator
from planner.cost.layer.operators import Operator, Pricer, slowed
from planner.cost.layer.tiles import in_tiles
from planner.formulas import elementwise as traffic
from planner.formulas.gemm import misaligned_slowdown
from planner.inputs.layer_inputs import LayerInputs
from planner.numeric import Num, floor


def embedding_operators(pricer: Pricer) -> list[Operator]:
    """Price the lookup of the token embedding, and its share of the vocabulary."""
    model = pricer.case.model
    weights = (model.embedding_params - model.embedding_norm * model.norm_params) / pricer.plan.tp
    elements = pricer.tokens * model.hidden
    lookup = pricer.elementwise("embedding", "embedding", elements, traffic.EMBEDDING, params=weights)
    found = [lookup, norm_operator(pricer, "embedding_norm")] if model.embedding_norm else [lookup]
    return found if model.layer_inputs is None else found + _layer_inputs(pricer, model.layer_inputs)


def _layer_inputs(pricer: Pricer, inputs: LayerInputs) -> list[Operator]:
    """Price what makes an input of each layer: rows of a second table, a product, a norm of each, the sum.

    The table's parameters count with the embedding's.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.24.0, ``models/gemma4/modeling_gemma4.py``,
       ``project_per_layer_inputs``.
    """
    model, rows = pricer.case.model, pricer.tokens
    width = inputs.width * model.num_layers / pricer.plan.tp
    made = pricer.linear(
        "layer_inputs", "embedding", rows, float(model.hidden), width, saved=2 * rows * width
    )
    norm = pricer.elementwise("layer_inputs_norm", "embedding", rows * width, traffic.NORM[False])
    return [
        pricer.elementwise("layer_inputs_lookup", "embedding", rows * width, traffic.EMBEDDING),
        made.with_values(params=0.0, stored=0.0, trained=0.0),
        norm.with_values(saved=2 * rows * width),
    ]


def head_operators(pricer: Pricer, tied: bool = False) -> list[Operator]:
    """Price the last norm, the product with the vocabulary and the loss.

    ``tied`` says that the weights are those of an embedding on the same rank, and counted there. The head is
    not quantised (T. Dettmers et al., arXiv:2305.14314, sec. 3).
    """
    case, model = pricer.case, pricer.case.model
    vocab = model.vocab / pricer.plan.tp
    logits = pricer.tokens * (vocab if case.traits.loss.vocab_parallel else model.vocab)
    moved = traffic.Traffic(case.traits.loss.traffic / 3, case.traits.loss.traffic * 2 / 3)
    if model.numerics.logit_softcap is not None:
        moved = moved.beside(traffic.BOUND)
    parts = case.traits.loss.chunks if case.loss.reruns else 1.0
    product = pricer.linear("head", "head", pricer.tokens / parts, model.hidden, vocab, bias=model.head_bias)
    if parts > 1.0:
        product = in_tiles(product, parts)
    if not case.traits.loss.padded_vocabulary:
        product = slowed(product, misaligned_slowdown(floor(vocab)))
    if tied:
        product = product.with_values(params=0.0, stored=0.0, trained=0.0)
    else:
        product = product.with_values(stored=_head_bytes(case, product))
    return [
        *([norm_operator(pricer, "final_norm")] if model.final_norm else []),
        *_before_head(pricer),
        product,
        pricer.elementwise("loss", "head", logits, moved).with_values(reruns=float(parts > 1.0)),
    ]


def _before_head(pricer: Pricer) -> list[Operator]:
    """Price the product, activation and norm that some models have before the head."""
    model, rows = pricer.case.model, pricer.tokens
    if model.head_product is None:
        return []
    kept = 2 * rows * model.hidden
    made = pricer.linear(
        "head_product", "head", rows, float(model.hidden), float(model.hidden), saved=kept,
        bias=model.head_product.bias,
    )  # fmt: skip
    kernels = pricer.case.traits.kernels
    moved = traffic.PLAIN[kernels.fused_activation or kernels.compiled]
    activated = pricer.elementwise("head_activation", "head", rows * model.hidden, moved, saved=kept)
    return [made, activated, norm_operator(pricer, "head_norm", readers=("head",))]


def _head_bytes(case: Case, product: Operator) -> Num:
    """Bytes of the head's weights at rest, in 16 bit or more whatever the others are. [byte]

    References
    ----------
    .. [1] Megatron-LM, ``megatron/core/models/gpt/gpt_model.py``: the output layer is not one of Transformer
       Engine's, and has no low-bit copies.
    """
    return product.params * case.plain_bytes + copy_bytes(case, product.trained)


def prediction_operators(pricer: Pricer) -> list[Operator]:
    """Price what an extra prediction layer has beside its block: two norms and a projection."""
    hidden = pricer.case.model.hidden
    return [
        norm_operator(pricer, "norm_embedding"),
        norm_operator(pricer, "norm_hidden"),
        pricer.linear("projection", "mtp", pricer.tokens, 2.0 * hidden, hidden / pricer.plan.tp),
    ]
