"""The matrices of an optimizer that steps them whole: whose they are, and what is kept for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from planner.cost.case import Case
from planner.cost.expert_shards import filled_expert_shards
from planner.cost.memory.padding import mixers_of
from planner.cost.memory.weights import StageWeights
from planner.cost.stages import Piece
from planner.dataclasses import dataclass, replace
from planner.formulas.newton_schulz import STEPS
from planner.inputs.block_parts import ProductExtra
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, Mixer, ModelSpec
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num, maximum, minimum
from planner.plan import Plan
from planner.remembered import remembered
from planner.techniques.optimizers import MatrixStep

TENSOR_BYTES = 4.0
"""Momentum that tensor-parallel ranks gather, in fp32 (NVIDIA-NeMo/Emerging-Optimizers, ``muon_utils.py``,
``newton_schulz_tp``, mode ``duplicated``). [byte]"""


@dataclass(frozen=True)
class Matrices:
    """Matrices that Muon steps, whole."""

    rate: float
    """Arithmetic for each element in the mean. [FLOP]"""
    flops: float
    elements: float
    """Of the one that has most of either. [FLOP], [element]"""
    kept: float = 0.0
    exchanged: float = 1.0
    """What is kept beside moments, and what replicas reduce, for each element in the mean. [element]"""


def first_moments(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Bytes of moments that embedding and head have more than matrices do, all shards together. [byte]"""
    optimizer = case.optimizer
    more = optimizer.end_states - optimizer.states
    ends = end_elements(case, plan, counts) * (more * case.moment_bytes / optimizer.states)
    if optimizer.embedding_state_bytes is None or not case.method.trains_base:
        return ends
    wider = optimizer.states * (optimizer.embedding_state_bytes - optimizer.state_bytes)
    return ends + wider * _embedding_elements(case, plan, counts)


@dataclass(frozen=True)
class SharedMatrices:
    """Matrices outside or inside routed experts, by how their ranks share them."""

    local: Num
    """Elements on a tensor rank, all shards together. [element]"""
    width: Num
    stride: Num
    """Tensor-parallel ranks that hold a part of each, and the distance of those that share states. [-]"""
    shards: Num
    """Ranks that share optimizer states. [-]"""
    copies: Num
    """Ranks that hold the same share of the states. [-]"""
    kind: Matrices
    """What they are."""

    @property
    def owned(self) -> Num:
        """Whole elements of the rank that steps most: its share, but one matrix at least. [element]"""
        whole = self.local * self.width
        return maximum(whole / self.shards, minimum(self.kind.elements, whole))

    @property
    def flops(self) -> Num:
        """Arithmetic of the rank that has most of it. [FLOP]"""
        whole = self.local * self.width * self.kind.rate
        return maximum(whole / self.shards, minimum(self.kind.flops, whole))


def block_matrices(block: Block, hidden: int) -> Iterator[tuple[float, float, float, bool]]:
    """Yield rows, columns, number of and whether expert the matrices of a layer; gate and up are one."""
    ffn, width = block.ffn, float(hidden)
    for mixer in mixers_of(block):
        yield from _mixer_matrices(mixer, hidden)
    if ffn is not None:
        yield from _ffn_matrices(ffn, width)
    own = (one for one in block.extras if isinstance(one, ProductExtra))
    yield from ((float(one.outputs), float(one.inputs), 1.0, False) for one in own)


def _mixer_matrices(mixer: Mixer, hidden: int) -> Iterator[tuple[float, float, float, bool]]:
    width = float(hidden)
    if isinstance(mixer, RecurrentMixer):
        yield from ((float(one.outputs), float(one.inputs), 1.0, False) for one in mixer.products(hidden))
    if isinstance(mixer, Attention):
        keys = mixer.makes_keys * mixer.kv_heads * mixer.head_dim
        values = mixer.makes_values * mixer.kv_heads * mixer.value_head_dim
        for rows in filter(None, (mixer.heads * mixer.head_dim + mixer.gate_width, keys, values)):
            yield float(rows), width, 1.0, False
        if mixer.indexer is not None:
            yield from (
                (float(rows), width, 1.0, False) for rows in (mixer.indexer.width, mixer.indexer.head_dim)
            )
    if isinstance(mixer, LatentAttention):
        rank, queries = float(mixer.q_lora_rank), float(mixer.heads * mixer.qk_head_dim)
        yield queries, rank or width, 1.0, False
        if rank:
            yield rank, width, 1.0, False
        yield float(mixer.kv_lora_rank + mixer.qk_rope_head_dim), width, 1.0, False
        both = mixer.heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        yield float(both), float(mixer.kv_lora_rank), 1.0, False
        if mixer.indexer is not None:
            yield float(mixer.indexer.width), rank or width, 1.0, False
            yield float(mixer.indexer.head_dim), width, 1.0, False
            yield float(mixer.indexer.heads), width, 1.0, False
    if isinstance(mixer, Attention | LatentAttention):
        yield width, float(mixer.heads * mixer.value_head_dim), 1.0, False


def _ffn_matrices(ffn: DenseFfn | Experts, width: float) -> Iterator[tuple[float, float, float, bool]]:
    gates = 2.0 if ffn.gated else 1.0
    if isinstance(ffn, Experts):
        yield float(ffn.choices), width, 1.0, False
        sent = float(ffn.width(int(width)))
        yield gates * ffn.inner, sent, float(ffn.experts), True
        yield sent, float(ffn.inner), float(ffn.experts), True
        if ffn.latent:
            yield sent, width, 1.0, False
            yield width, sent, 1.0, False
    inner = ffn.shared_inner if isinstance(ffn, Experts) else ffn.inner
    if inner:
        yield gates * inner, width, 1.0, False
        yield width, float(inner), 1.0, False


@remembered(most=64)
def model_matrices(model: ModelSpec, step: MatrixStep, expert: bool) -> Matrices:
    """Return the matrices of all layers, outside or inside routed experts."""
    flops = elements = most_flops = most_elements = kept = sent = 0.0
    for name in model.layers:
        for rows, columns, count, inside in block_matrices(model.blocks[name], model.hidden):
            if inside != expert:
                continue
            each = float(step.flops(rows, columns))
            kept = kept + count * float(step.kept(rows, columns))
            sent = sent + count * float((step.exchanged or _all_elements)(rows, columns))
            flops, elements = flops + count * each, elements + count * rows * columns
            most_flops, most_elements = max(most_flops, each), max(most_elements, rows * columns)
    if not elements:
        return Matrices(0.0, most_flops, most_elements)
    return Matrices(flops / elements, most_flops, most_elements, kept / elements, sent / elements)


def _all_elements(m: Num, n: Num) -> Num:
    return m * n


def end_elements(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Weights of embedding and head on a tensor rank of a stage, which AdamW steps. [element]"""
    return table_elements(case, plan, counts) if case.method.trains_base else 0.0


def table_elements(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Weights of embedding and head on a tensor rank of a stage. [element]"""
    head = case.model.vocab * case.model.hidden / plan.tp
    return _embedding_elements(case, plan, counts) + counts.get(("head", False), 0.0) * head


def _embedding_elements(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    return counts.get(("embedding", False), 0.0) * (case.model.embedding_params / plan.tp)


def shared_matrices(case: Case, plan: Plan, held: StageWeights) -> list[SharedMatrices]:
    """Return the matrices of a stage outside routed experts, and those inside; adapters are thin ones."""
    step = case.optimizer.matrix
    if step is None:
        return []
    sharding, dense = case.sharding, model_matrices(case.model, step, False)
    if not case.method.trains_base:
        dense = Matrices(4.0 * STEPS * case.workload.lora_rank, 0.0, 0.0)
    local = maximum(held.trained - end_elements(case, plan, held.counts), 0.0 * held.trained)
    shards = sharding.optimizer_shards(plan.zero_shards)
    ranks = plan.dp * plan.cp
    found = [SharedMatrices(local, plan.tp, plan.tp, shards, ranks / shards, dense)]
    if case.has_experts:
        shards = sharding.optimizer_shards(filled_expert_shards(case, plan))
        kind = model_matrices(case.model, step, True) if case.method.trains_base else dense
        stride, copies = plan.ep * plan.etp, ranks / shards
        found.append(SharedMatrices(held.expert_trained, plan.etp, stride, shards, copies, kind))
    return found


def is_owned(case: Case) -> bool:
    """Whether ranks that share states step whole matrices each, so that nothing is gathered for it."""
    whole = case.optimizer.whole_matrices and case.method.trains_base
    return whole and case.sharding.shards_optimizer and case.traits.optimizer.whole_matrices != "gathered"


def padded_weights(case: Case, held: StageWeights, matrices: Sequence[SharedMatrices]) -> StageWeights:
    """Return the weights of a stage with what fills buffers of as many parts as ranks, each as the fullest.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/optimizer/layer_wise_optimizer.py``,
       ``_compute_per_buffer_param_layout``: every part is as long as the one with most matrices.
    """
    if not is_owned(case) or case.traits.optimizer.whole_matrices == "dealt":
        return held
    dense, *experts = (
        maximum(one.shards * one.owned / one.width - one.local, 0.0 * one.local) for one in matrices
    )
    inside = experts[0] if experts else 0.0
    return replace(
        held,
        stored=held.stored + dense * case.weight_bytes,
        trained=held.trained + dense,
        expert_stored=held.expert_stored + inside * case.weight_bytes,
        expert_trained=held.expert_trained + inside,
    )


def matrix_bytes(matrices: Iterable[SharedMatrices]) -> Num:
    """Bytes kept beside moments for the matrices of a stage, in fp32, all shards together. [byte]"""
    kept: Num = 0.0
    for one in matrices:
        kept = kept + TENSOR_BYTES * one.kind.kept * one.local
    return kept
