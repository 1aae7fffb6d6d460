"""What padding adds to weights, since FSDP2 cuts parameters by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.cost.case import Case
from planner.cost.stages import ENCODER, Piece
from planner.dataclasses import dataclass
from planner.inputs.block_parts import Part, ProductExtra, ProductPart
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, Mixer
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num, ceil, maximum, minimum, where
from planner.plan import Plan


@dataclass(frozen=True)
class Parameters:
    """Parameters on a tensor rank, those of one height counted together."""

    rows: Num
    columns: Num
    """Size of dimension 0, and of all others together. [element]"""


def padded_elements(parameters: list[Parameters], shards: Num) -> Num:
    r"""Elements that padding of dimension 0 adds to parameters. [element]

    .. math:: \sum_p \left(n \lceil r_p / n \rceil - r_p\right) c_p

    Parameters
    ----------
    parameters : list of Parameters
        Rows :math:`r_p` and columns :math:`c_p`. [element]
    shards : Num
        Ranks :math:`n` of a group. [-]

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/fsdp/_fully_shard/_fsdp_param.py``, ``_init_sharded_param``:
       ``padded_sharded_size`` is that of the first chunk.

    Examples
    --------
    Llama 3's vocabulary on 512 ranks: 251 rows each, not 250.5.

    >>> padded_elements([Parameters(128256.0, 1.0)], 512.0)
    256.0
    """
    result: Num = 0.0
    for one in parameters:
        result = result + (shards * ceil(one.rows / shards) - one.rows) * one.columns
    return result


def pads_rows(case: Case) -> bool:
    """Whether rows of sharded parameters are padded to the number of shards."""
    return case.engine.pads_rows and case.sharding.shards_parameters and case.method.trains_base


def kept_padding(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Elements that padding adds to what a stage's ranks keep, outside routed experts, all shards together.

    The rank that decides has no part shorter than the padded one.
    """
    return stage_padding(case, plan, counts) if pads_rows(case) else 0.0


def stage_padding(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Elements that padding adds to the weights of a stage outside routed experts. [element]"""
    result: Num = 0.0
    known: dict[str, Num] = {}
    for (name, _), count in counts.items():
        if name not in known:
            known[name] = padded_elements(piece_parameters(case, plan, name), plan.zero_shards)
        result = result + count * known[name]
    return result


def head_elements(case: Case, plan: Plan, counts: Mapping[Piece, Num]) -> Num:
    """Elements of the last norm and of the head, padded; those of the table where it is both. [element]"""
    result: Num = 0.0
    for name in ("head", "tied_head"):
        if (name, False) not in counts:
            continue
        parts = piece_parameters(case, plan, name)
        parts += piece_parameters(case, plan, "embedding") if name == "tied_head" else []
        whole = padded_elements(parts, plan.zero_shards)
        for part in parts:
            whole = whole + part.rows * part.columns
        result = result + minimum(counts[name, False], 1.0) * whole
    return result


def expert_padding(case: Case, plan: Plan) -> Num:
    """Sent bytes of routed experts over their own: whole experts, or their rows where shards are more. [-]

    References
    ----------
    .. [1] torchtitan, ``torchtitan/models/llama4/infra/parallelize.py``, ``apply_fsdp``: ``Shard(1)`` where
       the ranks of a shard group are more than the experts.
    """
    experts = case.experts / plan.ep
    shards = maximum(plan.expert_shards, 1.0)
    return where(shards > experts, 1.0, shards * ceil(experts / shards) / experts)


def piece_parameters(case: Case, plan: Plan, name: str) -> list[Parameters]:
    """Return the parameters of a layer or end on a tensor rank, those of routed experts left out."""
    model = case.model
    if name in model.blocks:
        return block_parameters(model.blocks[name], model.hidden, _norms(case, 1), plan.tp)
    if name == ENCODER and model.encoder is not None:
        own = model.encoder
        return [Parameters(float(own.hidden), own.params / own.hidden)]
    if model.diffusion is not None:
        return part_parameters(model.diffusion.first if name == "embedding" else model.diffusion.last)
    hidden, norms = float(model.hidden), 2 if name == "prediction" else 1
    table = Parameters(model.vocab / plan.tp, hidden)
    positions = model.embedding_params / hidden - model.vocab
    ends = {
        "embedding": [table, Parameters(positions / plan.tp, hidden)],
        "head": [table, Parameters(hidden, _norms(case, norms))],
        "tied_head": [Parameters(hidden, _norms(case, norms))],
        "prediction": [Parameters(hidden / plan.tp, 2.0 * hidden), Parameters(hidden, _norms(case, norms))],
    }
    return ends[name]


def _norms(case: Case, count: int) -> float:
    return count * case.model.norm_params / case.model.hidden


def mixers_of(block: Block) -> tuple[Mixer, ...]:
    """Return a layer's mixers, attention to an encoder's result among them."""
    return (*block.mixers, *((block.cross,) if block.cross else ()))


def block_parameters(block: Block, hidden: int, norm: float, tp: Num) -> list[Parameters]:
    """Return the parameters of a layer; ``norm`` is how many of the hidden size a norm has."""
    if block.parts:
        return part_parameters(block.parts)
    mixed = [one for mixer in mixers_of(block) for one in _mixed(mixer, hidden, tp)]
    fed = _fed(block.ffn, hidden, tp)
    beside = [
        Parameters(float(one.outputs), float(one.inputs + one.bias))
        if isinstance(one, ProductExtra)
        else Parameters(float(one.params), 1.0)
        for one in block.extras
        if one.params
    ]
    return [Parameters(float(hidden), block.norms * norm), *mixed, *fed, *beside]


def part_parameters(parts: Sequence[Part]) -> list[Parameters]:
    """Return the parameters of a block's parts: products by their outputs, all others by themselves."""
    return [
        Parameters(float(one.outputs), float(one.inputs + one.bias))
        if isinstance(one, ProductPart)
        else Parameters(float(one.params), 1.0)
        for one in parts
        if one.params
    ]


def _mixed(mixer: Mixer, hidden: int, tp: Num) -> list[Parameters]:
    if isinstance(mixer, RecurrentMixer):
        return _recurrent(mixer, hidden, tp)
    return _attention(mixer, hidden, tp) if isinstance(mixer, Attention) else _latent(mixer, hidden, tp)


def _fed(ffn: DenseFfn | Experts | None, hidden: int, tp: Num) -> list[Parameters]:
    if ffn is None:
        return []
    return _dense(ffn, hidden, tp) if isinstance(ffn, DenseFfn) else _experts(ffn, hidden, tp)


def _recurrent(mixer: RecurrentMixer, hidden: int, tp: Num) -> list[Parameters]:
    split = {"columns": (tp, 1.0), "rows": (1.0, tp), "none": (1.0, 1.0)}
    found = [
        Parameters(one.outputs / split[one.split][0], one.inputs / split[one.split][1] + one.bias)
        for one in mixer.products(hidden)
    ]
    small = [(mixer.divided_params / tp, 1.0), (float(mixer.whole_params), 1.0)]
    return found + [Parameters(rows, columns) for rows, columns in small]


def _attention(mixer: Attention, hidden: int, tp: Num) -> list[Parameters]:
    heads, kv_heads = ceil(mixer.heads / tp), maximum(mixer.kv_heads / tp, 1.0)
    queries, keys, values = heads * mixer.head_dim, kv_heads * mixer.head_dim, kv_heads * mixer.value_head_dim
    queries = queries + heads * (mixer.output_gate * mixer.value_head_dim + mixer.head_gate)
    columns = float(hidden + mixer.qkv_bias)
    normed = columns + (mixer.qk_norm in ("full", "each"))
    unbiased = normed - (mixer.qkv_bias and not mixer.key_bias)
    found = [Parameters(queries, normed)]
    found += [Parameters(keys, unbiased)] * mixer.makes_keys
    found += [Parameters(values, columns)] * mixer.makes_values
    found.append(Parameters(float(hidden), heads * mixer.value_head_dim + mixer.output_bias))
    if mixer.qk_norm in ("head", "head-bias"):
        count = (1.0 + mixer.makes_keys) * (1.0 if mixer.qk_norm == "head" else 2.0)
        found.append(Parameters(float(mixer.head_dim), count))
    if mixer.indexer is not None:
        narrow = float(mixer.indexer.head_dim)
        found += [Parameters(float(mixer.indexer.width), float(hidden)), Parameters(narrow, hidden + 2.0)]
    found += [Parameters(float(mixer.distances), heads)] * bool(mixer.distances)
    return [*found, Parameters(heads, 1.0)] if mixer.sinks else found


def _latent(mixer: LatentAttention, hidden: int, tp: Num) -> list[Parameters]:
    heads, rank = mixer.heads / tp, float(mixer.q_lora_rank)
    found = [
        Parameters(heads * mixer.qk_head_dim, rank or float(hidden)),
        Parameters(float(mixer.kv_lora_rank + mixer.qk_rope_head_dim), float(hidden)),
        Parameters(float(mixer.kv_lora_rank), 1.0),
        Parameters(heads * (mixer.qk_nope_head_dim + mixer.v_head_dim), float(mixer.kv_lora_rank)),
        Parameters(float(hidden), heads * mixer.v_head_dim + mixer.output_bias),
    ]
    if mixer.indexer is not None:
        narrow, heads = float(mixer.indexer.head_dim), float(mixer.indexer.heads)
        found += [Parameters(float(mixer.indexer.width), rank or float(hidden))]
        found += [Parameters(narrow, hidden + 2.0), Parameters(heads, float(hidden))]
    return [*found, Parameters(rank, hidden + 1.0)] if rank else found


def _dense(ffn: DenseFfn, hidden: int, tp: Num) -> list[Parameters]:
    into = (2.0 if ffn.gated else 1.0) * (hidden + ffn.bias)
    return [Parameters(ffn.inner / tp, into), Parameters(float(hidden), ffn.inner / tp + ffn.bias)]


def _experts(ffn: Experts, hidden: int, tp: Num) -> list[Parameters]:
    found = [Parameters(float(ffn.choices), float(hidden + ffn.router_bias))]
    if ffn.latent:
        found += [Parameters(float(ffn.latent), float(hidden)), Parameters(float(hidden), float(ffn.latent))]
    if ffn.shared_inner:
        found += _dense(DenseFfn(inner=ffn.shared_inner, gated=ffn.gated), hidden, tp)
    return [*found, Parameters(1.0, float(hidden))] if ffn.shared_gate else found
