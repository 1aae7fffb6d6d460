"""Tensor-parallel messages of low-rank adapters, beside those of the layers that they sit on."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import adapters_beside, has_adapter, regathers_input
from planner.cost.layer.exchange import ACTIVATION_BYTES, NO_EXCHANGE, Exchange
from planner.cost.layer.operators import COLUMN_SPLIT, ROW_SPLIT, Operator, Pricer
from planner.dataclasses import dataclass
from planner.formulas.collectives import all_to_all_seconds, ring_seconds, ring_sent_bytes
from planner.numeric import Num


def gathers_in_the_open(pricer: Pricer, name: str) -> bool:
    """Whether nothing hides the gather before the layer called ``name``, whose adapter reads it too."""
    return has_adapter(pricer.case, name) and not pricer.case.traits.adapters.gathers_input


def keeps_whole_input(case: Case, names: tuple[str, ...]) -> bool:
    """Whether an adapter beside one of the layers keeps what all tensor-parallel ranks gathered for it."""
    split = case.sequence_parallel and case.tensor_library.regathers and not regathers_input(case)
    return split and any(name in COLUMN_SPLIT and has_adapter(case, name) for name in names)


def adapter_exchange(pricer: Pricer, operators: list[Operator]) -> Exchange:
    """Price the messages of a layer's adapters; no product hides them.

    Both factors are split over tensor-parallel ranks. Beside a column-split layer the bottleneck is gathered,
    and its gradient reduced; beside a row-split one it is reduced both ways. What a row-split layer's adapter
    makes is gathered whole, and with sequence parallelism cut along the sequence, its gradient the other way
    round; or one all-to-all does both. With sequence parallelism a column-split layer's adapter takes what
    the layer gathers, unless its product hides that gather, part by part: then it gathers its input for
    itself, once more backward where that is kept sharded, and reduce-scatters the gradient. Without sequence
    parallelism all ranks have that input and sum its gradient.

    References
    ----------
    .. [1] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/peft/utils.py``, ``ParallelLinearAdapter``
       and ``get_adapter_attributes_from_linear``.
    """
    case, plan = pricer.case, pricer.plan
    if not case.method.adapts or (isinstance(plan.tp, float) and plan.tp == 1.0):
        return NO_EXCHANGE
    names = [operator.name for operator in operators]
    columns = sum(adapters_beside(case, name) for name in names if name in COLUMN_SPLIT)
    rows = sum(adapters_beside(case, name) for name in names if name in ROW_SPLIT)
    thin = _ring(pricer, ACTIVATION_BYTES * pricer.tokens * case.workload.lora_rank)
    whole = _ring(pricer, ACTIVATION_BYTES * pricer.tokens * case.model.hidden)
    sent = thin.passes(columns + 2 * rows, 2 * columns + 2 * rows)
    if not case.sequence_parallel:
        return sent + whole.passes(rows, 2 * columns)
    traits = case.traits.adapters
    again = regathers_input(case)
    alone = traits.gathers_input and (again or case.traits.tensor.exposed < 1)
    own, back = columns * alone, columns * alone * (1 + again)
    if traits.all_to_all:
        return sent + whole.passes(own, back) + _all_to_all(pricer).passes(rows, rows)
    return sent + whole.passes(own + rows, back + rows)


@dataclass(frozen=True)
class _Message:
    """One message: how long it takes [s], and what a rank sends [byte]."""

    seconds: Num
    sent: Num

    def passes(self, forward: Num, backward: Num) -> Exchange:
        """So many of it in each pass."""
        return Exchange(
            forward * self.seconds, backward * self.seconds, forward * self.sent, backward * self.sent
        )


def _ring(pricer: Pricer, nbytes: Num) -> _Message:
    tp, tiers = pricer.plan.tp, pricer.case.tensor_tiers
    return _Message(ring_seconds(nbytes, tp, 1.0, tiers), ring_sent_bytes(nbytes, tp))


def _all_to_all(pricer: Pricer) -> _Message:
    case, tp = pricer.case, pricer.plan.tp
    part = ACTIVATION_BYTES * pricer.tokens * case.model.hidden / tp
    return _Message(all_to_all_seconds(part, tp, 1.0, case.tensor_tiers), ring_sent_bytes(part, tp))
