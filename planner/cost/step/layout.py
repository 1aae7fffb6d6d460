"""From a plan to what its pipeline ranks hold, and the price of every piece of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.attention_core import mean_keys
from planner.cost.layer.block_cost import PricedLayer, layer_cost, layer_detail, priced_layer
from planner.cost.layer.encoders import runs_again
from planner.cost.layer.layer_costs import LayerCost, LayerDetail
from planner.cost.layer.operators import Pricer
from planner.cost.splits import default_split
from planner.cost.stages import Piece, RankPieces, rank_counts
from planner.cost.traffic.messages import pipeline_messages
from planner.cost.traffic.rank_order import Order, stage_order
from planner.dataclasses import dataclass, field, replace
from planner.inputs.model import Attention, Block, ModelSpec
from planner.plan import Plan, even_split
from planner.remembered import remembered
from planner.techniques.recompute.family import RecomputeChoice

T = TypeVar("T")


def layer_weights(
    model: ModelSpec, seq_len: int, document_tokens: float | None = None
) -> Mapping[str, float]:
    """FLOPs of one token in a layer of each kind, and in the head: what the default split balances. [FLOP]"""
    weights: dict[str, float] = {}
    for name, block in model.blocks.items():
        products = block.active_params(model.hidden, model.norm_params)
        weights[name] = 2.0 * products + _core_flops(block, seq_len, document_tokens)
    weights["head"] = 2.0 * model.vocab * model.hidden
    if model.prediction is not None:
        extra = weights[model.prediction.block] + weights["head"] + 4.0 * model.hidden * model.hidden
        weights["head"] += model.prediction.layers * extra
    return weights


def _core_flops(block: Block, seq_len: int, document_tokens: float | None) -> float:
    """FLOPs of one token in a layer's attention core and in its scan. [FLOP]"""
    mixer, recurrent = block.attention, block.recurrent
    scanned = recurrent.state_heads * recurrent.scan_flops if recurrent is not None else 0.0
    if mixer is None:
        return scanned
    chunked = isinstance(mixer, Attention) and mixer.chunked
    keys = float(mean_keys(float(seq_len), mixer.reach, chunked, document_tokens))
    picks = mixer.indexer
    scored = float(mean_keys(float(seq_len), None, False, document_tokens)) * picks.width if picks else 0.0
    return scanned + 2.0 * (keys * (mixer.heads * sum(mixer.core_widths)) + scored)


def split_of(plan: Plan, case: Case) -> tuple[int, ...]:
    """Layers of each virtual stage of a scalar plan: its own, or the default split."""
    return plan.stage_layers or usual_split(case, int(plan.pp * plan.vpp))


def usual_split(case: Case, parts: int) -> tuple[int, ...]:
    """Layers of each virtual stage where nobody names any: the runtime's own cut, or the default split."""
    own, work = case.runtime.own_split, case.workload
    if own is not None and (split := own(case.model, parts)) is not None:
        return split
    return _balanced_split(case.model, work.seq_len, work.attended_tokens, parts)


@remembered(most=1024)
def _balanced_split(model: ModelSpec, seq_len: int, documents: float | None, parts: int) -> tuple[int, ...]:
    if len(set(model.layers)) == 1:
        return even_split(model.num_layers, parts)
    return default_split(model, parts, layer_weights(model, seq_len, documents))


def ranks_of(plan: Plan, case: Case) -> list[RankPieces]:
    """Pieces of every pipeline rank of a scalar plan."""
    degrees = (int(plan.pp), int(plan.vpp))
    return pipeline_ranks(case, degrees, split_of(plan, case), stage_order(case, plan))


def pipeline_ranks(
    case: Case, degrees: tuple[int, int], split: Sequence[int], order: Order | None = None
) -> list[RankPieces]:
    """Pieces and messages of every rank of a pipeline of (pp, vpp) over the whole job."""
    ranks = rank_counts(case.model, case.schedule, degrees, split, case.recompute, case.prediction_apart)
    for rank, messages in zip(ranks, pipeline_messages(case, *degrees, split, order), strict=True):
        rank.messages = messages
    return ranks


NOTHING_AGAIN = RecomputeChoice(whole_layer=False, modules=frozenset(), layers=0.0)
"""The choice for layers to which the plan's own does not apply."""


def choice_for(piece: Piece, case: Case) -> RecomputeChoice:
    """Return the recompute choice of a piece."""
    return case.recompute if piece[1] else NOTHING_AGAIN


def priced_layers(case: Case, plan: Plan, pieces: Iterable[Piece]) -> dict[str, PricedLayer]:
    """Price the operators and messages of each kind of layer, whatever is recomputed."""
    known = _known_shape(case, plan).layers
    names = dict.fromkeys(name for name, _ in pieces)
    if missing := [name for name in names if name not in known]:
        pricer = Pricer(case, plan)
        known |= {name: priced_layer(pricer, name) for name in missing}
    return {name: known[name] for name in names}


LAYER_AXES = ("tp", "cp", "ep", "etp", "micro_batch")
"""Degrees that a layer's cost depends on."""


def layer_techniques(case: Case) -> tuple[object, ...]:
    """Return what the operators of a layer depend on beside `LAYER_AXES`, of the techniques of a plan.

    ZeRO's stage matters beside adapters, whose inputs are cast where nothing is sharded.
    """
    return (
        case.sequence_parallel,
        case.context.name,
        case.offload.modules,
        case.sharding.stage,
        runs_again(case),
    )


MOST_KNOWN = 256
"""Shapes of layers that are remembered."""


Answers = dict[tuple[str, RecomputeChoice], tuple[PricedLayer, T]]
"""What a kind of layer costs under a choice, beside the layer that was asked about."""


@dataclass(frozen=True)
class KnownShape:
    """What was priced of the layers of scalar plans that share `LAYER_AXES`; the case keeps its job alive."""

    case: Case
    layers: dict[str, PricedLayer] = field(default_factory=dict)
    costs: Answers[LayerCost] = field(default_factory=dict)
    details: Answers[LayerDetail] = field(default_factory=dict)


_KNOWN: dict[tuple[object, ...], KnownShape] = {}
"""Layers of scalar plans, which a search prices again with other splits."""


def _known_shape(case: Case, plan: Plan) -> KnownShape:
    """Return what is priced already for these degrees; nothing for columns of plans."""
    degrees = [getattr(plan, axis) for axis in LAYER_AXES]
    if np.ndarray in map(type, degrees):
        return KnownShape(case)
    key = (id(case.job), id(case.runtime), *layer_techniques(case), *degrees)
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[key] = KnownShape(case)
    return known


def piece_costs(
    case: Case, plan: Plan, layers: Mapping[str, PricedLayer], pieces: Iterable[Piece]
) -> dict[Piece, LayerCost]:
    """Return the cost of each piece under the case's recompute choice."""
    return _of_pieces(layer_cost, _known_shape(case, plan).costs, (case, plan, layers), pieces)


def piece_details(
    case: Case, plan: Plan, layers: Mapping[str, PricedLayer], pieces: Iterable[Piece]
) -> dict[Piece, LayerDetail]:
    """Return what an estimate tells of each piece beside its cost."""
    return _of_pieces(layer_detail, _known_shape(case, plan).details, (case, plan, layers), pieces)


def _of_pieces(
    priced: Callable[[PricedLayer, RecomputeChoice, Pricer], T],
    known: Answers[T],
    shape: tuple[Case, Plan, Mapping[str, PricedLayer]],
    pieces: Iterable[Piece],
) -> dict[Piece, T]:
    """Return what ``priced`` gives for each piece; each kind of layer and choice is asked once."""
    case, plan, layers = shape
    pricer = Pricer(case, plan)
    result: dict[Piece, T] = {}
    for piece in pieces:
        layer, choice = layers[piece[0]], choice_for(piece, case)
        asked, answer = known.get((piece[0], choice), (None, None))
        if answer is None or asked is not layer:
            answer = priced(layer, choice, pricer)
            known[piece[0], choice] = (layer, answer)
        result[piece] = answer
    return result


def with_split(plan: Plan, case: Case) -> Plan:
    """Return the scalar plan with its layers of each virtual stage written out."""
    return replace(plan, stage_layers=split_of(plan, case))
