"""What CUDA graphs keep of a layer, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planner.cost.case import Case
from planner.cost.layer.operators import Operator, Pricer
from planner.numeric import Num


def router_is_graphed(case: Case) -> bool:
    """Whether a graph holds what comes before the dispatcher: not where experts, with it, run again."""
    return case.graphs.routes and "moe" not in case.recompute.modules


def layer_graph_bytes(pricer: Pricer, operators: Iterable[Operator], again: Callable[[Operator], Num]) -> Num:
    """Bytes that the graph of a part of a layer keeps: of its norm, of its operators, and its result.

    Parameters
    ----------
    pricer, operators : Pricer, iterable of Operator
        The layer's operators, and what prices them.
    again : callable
        Share of an operator that runs again. [-]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/transformer_layer.py``,
       ``_te_cuda_graph_capture``: the module ``mlp`` of layers without experts, ``attn`` of any, and of those
       with experts all that comes before the dispatcher (``moe_router``, ``moe_preprocess``).
    """
    scope, routed = pricer.case.graphs, router_is_graphed(pricer.case)
    if not scope.modules:
        return 0.0
    modules = [name for name in scope.modules if routed or name != "router"]
    inside = [op for op in operators if op.module in modules or op.name in scope.norms]
    if len(inside) < 2:
        return 0.0
    kept: Num = 2.0 * pricer.local_tokens * pricer.case.model.hidden
    for op in inside:
        kept = kept + op.kept + op.saved * (1.0 - again(op))
    return kept
