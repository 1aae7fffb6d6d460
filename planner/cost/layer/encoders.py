"""An encoder of images on the first stage: all its layers as one piece of the model, for one micro-batch."""

from __future__ import annotations

from collections import Counter

from planner.cost.case import Case
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.communication import BlockExchanges, block_exchanges, tensor_exposed
from planner.cost.layer.exchange import ACTIVATION_BYTES, NO_EXCHANGE, Exchange
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.stages import ENCODER
from planner.dataclasses import replace
from planner.formulas import elementwise as traffic
from planner.formulas.collectives import ring_seconds, ring_sent_bytes
from planner.inputs.encoder import Encoder, Linear, Projector
from planner.inputs.model import ModelSpec
from planner.inputs.numerics import Numerics
from planner.numeric import Num, maximum
from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes.family import Job
from planner.techniques.methods import METHODS
from planner.techniques.precision import PRECISIONS

SUMMED = (
    "forward", "backward", "kept", "saved", "flops", "weight_gradient", "params", "stored", "trained",
    "launches", "outside_forward", "outside_backward",
)  # fmt: skip
"""Fields of an operator that as many layers have as many times."""

SIXTEEN = ("bf16", "fp16")
"""Formats of products that need no scales."""

BACKWARD = ("backward", "kept", "saved", "result", "weight_gradient", "trained", "outside_backward")
"""Fields that an operator has for its backward pass, which a frozen encoder does not run."""


@remembered(most=256)
def encoder_job(job: Job) -> Job:
    """Return the job of a model's encoder: its layers, on the patches of a sequence's images.

    Each image attends to itself alone.
    """
    encoder = job.model.encoder
    if encoder is None:
        raise AssertionError("a model without an encoder")
    model = ModelSpec(
        name=encoder.name,
        hidden=encoder.hidden,
        vocab=1,
        tied_embeddings=True,
        norm=encoder.norm,
        norm_bias=encoder.norm_bias,
        final_norm=False,
        variants=job.model.variants if job.model.crosses else (),
        numerics=job.model.numerics if job.model.crosses else Numerics(),
        blocks=encoder.blocks,
        layers=encoder.layers,
    )
    work = job.workload.model_copy(
        update={
            "seq_len": encoder.patches * job.workload.images,
            "document_tokens": encoder.patches,
            "seq_lens": None,
            "max_tokens_per_rank": None,
        }
    )
    return replace(job, model=model, workload=work)


def encoder_case(case: Case) -> Case:
    """Return the case of a model's encoder: without sequence parallelism where a runtime splits it itself.

    An encoder of images is in 16 bits beside a language model in fewer.

    References
    ----------
    .. [1] Megatron-Bridge 067f987d, ``modelling_qwen3_vl/transformer_config.py``,
       ``get_vision_model_config``: a config of its own, without ``fp8`` and ``fp4``.
    """
    along = case.sequence_parallel and not case.runtime.splits_encoder(case.model)
    low = case.precision.linear not in SIXTEEN and not case.model.crosses
    precision = PRECISIONS["bf16"] if low else case.precision
    return replace(case, job=encoder_job(case.job), sequence_parallel=along, precision=precision)


def runs_again(case: Case) -> bool:
    """Whether the layers of a model's encoder run again in the backward pass, as all of the others do."""
    repeats = case.model.encoder is not None and (case.model.crosses or case.traits.recompute.encoder_again)
    again = case.recompute
    return repeats and again.whole_layer and again.layers == float("inf") and again.parts == 1.0


def encoder_plan(pricer: Pricer) -> Plan:
    """Return the plan of an encoder: without tensor parallelism where every such rank holds all of it."""
    runtime, model = pricer.case.runtime, pricer.case.model
    if runtime.splits_encoder(model):
        return replace(pricer.plan, sequence_parallel=False)
    if not runtime.builds_encoder(model):
        return pricer.plan
    return replace(pricer.plan, tp=0.0 * pricer.plan.tp + 1.0)


def encoder_piece(pricer: Pricer, encoder: Encoder) -> tuple[tuple[Operator, ...], BlockExchanges]:
    """Price an encoder whole: stem, layers and projectors, with the messages of its tensor parallelism.

    Stem and projectors rest whole on each tensor-parallel rank, and so does an encoder that is built as the
    library has it; a runtime that splits it splits projectors too. Its layers run again where the runtime's
    recompute holds for them. A frozen encoder, and one beside adapters, runs forward alone and keeps nothing
    for a backward pass; its projectors may learn all the same.
    """
    own = Pricer(encoder_case(pricer.case), encoder_plan(pricer))
    operators = [
        *(
            _product(own, f"before_{place}", one.rows * own.tokens, one)
            for place, one in enumerate(encoder.before)
        ),
        _stem(own, encoder),
    ]
    again = runs_again(pricer.case)
    sent = {"tp": NO_EXCHANGE, "cp": NO_EXCHANGE}
    for name, count in Counter(encoder.layers).items():
        layer = block_operators(own, encoder.blocks[name])
        messages = block_exchanges(own, encoder.blocks[name], layer)
        if again:
            layer = _run_again(own, layer)
            messages = replace(messages, tp=_sent_again(messages.tp))
        operators += [_times(one, float(count)) for one in layer]
        sent = {
            kind: total + _repeated(getattr(messages, kind), float(count)) for kind, total in sent.items()
        }
    work = pricer.case.workload
    frozen = work.freeze_encoder or not pricer.case.method.trains_base
    if frozen:
        operators = [_frozen(one) for one in operators]
        sent = {kind: _forward(one) for kind, one in sent.items()}
    learns = Pricer(replace(own.case, method=METHODS["full"]), own.plan) if work.projects else own
    split = own.plan.tp if pricer.case.runtime.splits_encoder(pricer.case.model) else 1.0
    for projector in encoder.projectors:
        products, reduced = (
            _projected(learns, encoder, projector, split),
            _reduced(own, encoder, projector, split),
        )
        if frozen and not work.projects:
            products, reduced = [_frozen(one) for one in products], _forward(reduced)
        elif frozen and not projector.norm_params:
            products, reduced = [_first(products[0]), *products[1:]], _forward(reduced)
        operators += products
        sent["tp"] = sent["tp"] + reduced
    return tuple(operators), BlockExchanges(sent["tp"], sent["cp"], NO_EXCHANGE)


def _stem(own: Pricer, encoder: Encoder) -> Operator:
    """Price what makes rows of patches or tokens; positions and norms beside the layers add weights alone.

    Of an encoder that a decoder attends to the result of the last norm is kept, once for all that read it.
    """
    stem, more = encoder.stem, float(encoder.positions * encoder.hidden + encoder.norms * encoder.norm_params)
    if stem is None:
        elements = own.tokens * encoder.hidden
        product = own.elementwise("source_embedding", ENCODER, elements, traffic.EMBEDDING)
    else:
        product = _product(own, "patches", own.tokens, stem)
    if not encoder.projectors:
        product = product.with_values(saved=product.saved + ACTIVATION_BYTES * own.tokens * encoder.hidden)
    return product.with_values(
        params=product.params + more,
        stored=product.stored + more * own.case.plain_bytes,
        trained=product.trained + more * own.case.method.trains_base,
    )


def _product(
    own: Pricer, name: str, rows: Num, linear: Linear, columns: Num = 1.0, lines: Num = 1.0
) -> Operator:
    """Price a product that keeps its input; ranks share outputs by ``columns`` and inputs by ``lines``."""
    inputs, outputs = linear.inputs / lines, linear.outputs / columns
    return own.linear(name, ENCODER, rows, inputs, outputs, ACTIVATION_BYTES * rows * inputs, linear.bias)


def _projected(own: Pricer, encoder: Encoder, projector: Projector, split: Num) -> list[Operator]:
    """Price what makes tokens of an encoder's rows, as many of which are one as are merged.

    Ranks that ``split`` it have some outputs of the first product, and as many inputs of the last.
    """
    rows, last = own.tokens / encoder.merge, len(projector.linears) - 1
    products = [
        _product(own, f"project_{place}", rows, one, 1.0 if place else split, split if place == last else 1.0)
        for place, one in enumerate(projector.linears)
    ]
    first, *others = products
    norm = float(projector.norm_params)
    first = first.with_values(
        params=first.params + norm,
        stored=first.stored + norm * own.case.plain_bytes,
        trained=first.trained + norm * own.case.method.trains_base,
    )
    return [first, *others]


def _reduced(own: Pricer, encoder: Encoder, projector: Projector, split: Num) -> Exchange:
    """Price the all-reduces of a projector whose products ranks share: of its tokens, of its rows' gradients.

    References
    ----------
    .. [1] Megatron-Bridge 067f987d, ``modelling_qwen3_vl/utils.py``, ``Qwen3VLVisionPatchMerger``: a
       column-parallel and a row-parallel layer.
    """
    rows, tiers = ACTIVATION_BYTES * own.tokens / encoder.merge, own.case.tensor_tiers
    made, entered = rows * projector.linears[-1].outputs, rows * projector.linears[0].inputs
    exposed = 2.0 * tensor_exposed(own.case, split)
    return Exchange(
        exposed * ring_seconds(made, split, 1.0, tiers),
        exposed * ring_seconds(entered, split, 1.0, tiers),
        2.0 * ring_sent_bytes(made, split),
        2.0 * ring_sent_bytes(entered, split),
    )


def _run_again(own: Pricer, layer: list[Operator]) -> list[Operator]:
    """Return a layer that keeps its input alone, and runs again before its backward pass."""
    whole: Num = 0.0
    for one in layer:
        whole = whole + one.kept + one.saved
    first, *others = [
        one.with_values(kept=0.0, saved=0.0, backward=one.forward + one.backward) for one in layer
    ]
    held = ACTIVATION_BYTES * own.local_tokens * own.case.model.hidden
    return [first.with_values(kept=held, result=maximum(first.result, whole)), *others]


def _sent_again(exchange: Exchange) -> Exchange:
    """Return messages of which those of the forward pass go once more before the backward."""
    return replace(
        exchange,
        backward=exchange.backward + exchange.forward,
        backward_sent=exchange.backward_sent + exchange.forward_sent,
    )


def _times(operator: Operator, count: float) -> Operator:
    return operator.with_values(**{name: count * getattr(operator, name) for name in SUMMED})


def _frozen(operator: Operator) -> Operator:
    return operator.with_values(**dict.fromkeys(BACKWARD, 0.0))


def _first(product: Operator) -> Operator:
    """Return a product whose input needs no gradient: neither what made it nor a norm before it learns."""
    share = product.outside_backward * product.weight_gradient / product.backward
    return product.with_values(backward=product.weight_gradient, outside_backward=share)


def _repeated(exchange: Exchange, count: float) -> Exchange:
    return Exchange(
        count * exchange.forward,
        count * exchange.backward,
        count * exchange.forward_sent,
        count * exchange.backward_sent,
    )


def _forward(exchange: Exchange) -> Exchange:
    return replace(exchange, backward=0.0, backward_sent=0.0)
