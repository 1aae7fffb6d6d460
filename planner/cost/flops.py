"""Model FLOPs of a step, as Megatron-LM and Megatron-Bridge count them."""

from __future__ import annotations

from planner.cost.layer.attention_core import keys_of
from planner.cost.layer.block_parts import diffusion_flops
from planner.formulas.model_flops import model_flops
from planner.formulas.transformer import ffn_params
from planner.inputs.model import Attention, Block, Experts, LatentAttention, Mixer, ModelSpec
from planner.inputs.recurrent import RecurrentMixer
from planner.runtimes.family import Job
from planner.techniques.methods import Method

FROZEN_SHARE = 2.0 / 3.0
"""Share of its products' FLOPs that a frozen model needs: forward and data gradients, none of weights. [-]

References
----------
.. [1] NVIDIA, Megatron-Bridge, ``src/megatron/bridge/training/utils/flop_utils.py``: for LoRA
   ``model_flops_frozen * (2.0 / 3.0) + model_flops_unfrozen``, the second attention's, adapters left out.
"""


def step_flops(
    model: ModelSpec, seq_len: int, tokens: float, document_tokens: float | None = None, frozen: bool = False
) -> float:
    """Model FLOPs of a step as Megatron-LM counts them, extra prediction layers included. [FLOP]

    Attention within documents is counted where sequences are packed from them, and of a ``frozen`` model
    what it computes beside adapters.
    """
    names = list(model.layers)
    heads = 1
    weights = 0.0
    if model.prediction is not None:
        names += [model.prediction.block] * model.prediction.layers
        heads += model.prediction.layers
        weights += float(model.prediction.layers * model.prediction.extra_params(model.hidden, model.hidden))
    if model.layer_inputs is not None:
        weights += float(model.hidden * model.num_layers * model.layer_inputs.width)
    weights += float(model.hidden**2 * (model.head_product is not None))
    share = FROZEN_SHARE if frozen else 1.0
    length = min(float(seq_len), document_tokens or float(seq_len))
    total = share * model_flops(tokens, weights + heads * float(model.vocab * model.hidden), 0.0, 0.0)
    for name in dict.fromkeys(names):
        block = model.blocks[name]
        mixer, recurrent = block.attention, block.recurrent
        products = product_weights(block, model.hidden)
        if recurrent is not None:
            total += names.count(name) * 3.0 * tokens * recurrent.model_flops
        if mixer is None:
            total += names.count(name) * share * model_flops(tokens, float(products), 0.0, 0.0)
            continue
        if isinstance(mixer, LatentAttention) and mixer.indexer is not None:
            total += names.count(name) * model_flops(tokens, 0.0, float(mixer.indexer.width), length / 2)
        if isinstance(mixer, Attention) and mixer.indexer is not None:
            made = float(model.hidden * (mixer.indexer.width + mixer.indexer.head_dim))
            index = model_flops(tokens, made, float(mixer.indexer.width), length / 2) / 3.0
            total += names.count(name) * index  # forward alone: nothing teaches it
        chunk = min(mixer.reach or length, length)
        keys = chunk / 2 if chunk == length or getattr(mixer, "chunked", False) else _sliding(length, chunk)
        if isinstance(mixer, Attention) and not mixer.causal:
            keys = float(keys_of(mixer, length))
        width = mixer.heads * sum(mixer.core_widths)
        total += names.count(name) * share * model_flops(tokens, float(products), 0.0, 0.0)
        total += names.count(name) * model_flops(tokens, 0.0, float(width), keys)
    return float(total)


def job_flops(job: Job, trains_base: bool = True) -> float:
    """Model FLOPs of a job's step. [FLOP]"""
    work = job.workload
    if job.model.diffusion is not None:
        return work.global_batch * diffusion_flops(job.model, float(work.seq_len))
    tokens, known = float(work.tokens_per_step), work.packed
    documents = work.document_tokens if known is None else known.attended / known.filled
    language = step_flops(job.model, work.seq_len, tokens, documents, not trains_base)
    return language + encoder_flops(job, trains_base)


def method_flops(job: Job, method: Method) -> float:
    """Model FLOPs of a step of a method: of forward passes alone a third each of all. [FLOP]"""
    if method.forwards:
        return job_flops(job) * method.forwards / 3.0
    head = "ends" in (job.workload.lora_targets or ()) and job.model.diffusion is None
    extra = 2.0 * job.workload.tokens_per_step * job.model.vocab * job.model.hidden if head else 0.0
    return job_flops(job, method.trains_base) + extra * (not method.trains_base)


def encoder_flops(job: Job, trains_base: bool = True) -> float:
    """Model FLOPs of the encoder in a step: forward alone where it is frozen or beside adapters. [FLOP]

    All three products of projectors that learn behind a frozen encoder are counted.
    """
    encoder, work = job.model.encoder, job.workload
    if encoder is None:
        return 0.0
    rows = float(work.global_batch * work.images * encoder.patches)
    made = (*encoder.before, *((encoder.stem,) if encoder.stem else ()))
    stems = sum(getattr(one, "rows", 1) * one.inputs * one.outputs for one in made)
    total = model_flops(rows, float(stems), 0.0, 0.0)
    for name in encoder.layers:
        block = encoder.blocks[name]
        mixer = block.attention
        width = mixer.heads * sum(mixer.core_widths) if mixer else 0
        keys = min(encoder.patches, (mixer.reach if mixer else None) or encoder.patches)
        total += model_flops(rows, product_weights(block, encoder.hidden), float(width), float(keys))
    weights = sum(one.inputs * one.outputs for projector in encoder.projectors for one in projector.linears)
    projected = model_flops(rows / encoder.merge, float(weights), 0.0, 0.0)
    total += _cross_flops(job.model, rows, float(work.tokens_per_step), float(encoder.patches * work.images))
    share = 1.0 / 3.0 if work.freeze_encoder or not trains_base else 1.0
    return float(total) * share + float(projected) * (1.0 if work.projects else share)


def _cross_flops(model: ModelSpec, rows: float, tokens: float, source: float) -> float:
    """Model FLOPs of attention to an encoder's result: keys, values of its rows, the rest of tokens. [FLOP]

    Parameters
    ----------
    model : ModelSpec
        The model.
    rows, tokens : float
        Rows of the encoder and tokens of the decoder in a step. [element]
    source : float
        Rows that a token sees. [element]
    """
    found = (block.cross for name in model.layers if (block := model.blocks[name]))
    widths = sum(one.heads * one.head_dim for one in found if one is not None)
    made = float(2 * model.hidden * widths)
    return float(model_flops(rows, made, 0.0, 0.0) + model_flops(tokens, made, 2.0 * widths, source))


def product_weights(block: Block, hidden: int) -> float:
    """Weights that a token meets in the products of a layer: no biases, norms or router. [element]

    Norms inside latent attention are in, since Megatron-LM's ``num_floating_point_operations`` counts them.
    """
    ffn, weights = block.ffn, mixer_weights(block, hidden)
    weights += float(sum(one.weights for one in block.extras))
    if ffn is None:
        return weights
    matrices = 3 if ffn.gated else 2
    if isinstance(ffn, Experts):
        weights += float(2 * hidden * ffn.latent + ffn_params(hidden, ffn.shared_inner, matrices))
        return weights + float(ffn_params(ffn.width(hidden), ffn.picks * ffn.inner, matrices))
    return weights + float(ffn_params(hidden, ffn.inner, matrices))


def mixer_weights(block: Block, hidden: int) -> float:
    """Weights that a token meets in the products of a layer's mixers. [element]"""
    return sum((_mixer_weights(one, hidden) for one in block.mixers), 0.0)


def _mixer_weights(mixer: Mixer, hidden: int) -> float:
    if isinstance(mixer, Attention):
        return float(mixer.weights(hidden))
    if isinstance(mixer, RecurrentMixer):
        return float(sum(product.inputs * product.outputs for product in mixer.products(hidden)))
    return float(mixer.params(hidden))


def _sliding(seq_len: float, window: float) -> float:
    """Keys that a query sees in the mean through a sliding window. [-]"""
    return window - window * window / (2.0 * seq_len)
