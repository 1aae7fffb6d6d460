"""SPES: each replica trains its own share of the experts, and has all of them."""

from planner.formulas.partial_training import own_experts_sent
from planner.inputs.model import Experts, ModelSpec
from planner.techniques.sync.family import Parts, Penalty, Sync, blocking


def routed_params(model: ModelSpec) -> float:
    """Return the parameters of all routed experts. [element]"""
    ffns = ((count, model.blocks[name].ffn) for name, count in model.layer_counts.items())
    return float(
        sum(n * ffn.experts * ffn.expert_params(model.hidden) for n, ffn in ffns if isinstance(ffn, Experts))
    )


def own_experts(model: ModelSpec, replicas: int) -> Parts:
    """Return what is sent, and trained by each replica, where the experts are shared out."""
    routed = routed_params(model)
    if not routed:
        return Parts(lacks="routed experts, which replicas share out")
    dense = float(model.params) - routed
    trained = (dense + routed / replicas) / float(model.params)
    return Parts(sent=float(own_experts_sent(dense, routed)), trained=trained)


ENTRY = Sync(
    name="spes",
    cite="arXiv:2602.11543",
    sends="after the inner steps the dense part in a ring all-reduce, and each expert from who trained it",
    hidden="nothing: all wait",
    timing=blocking,
    penalty=Penalty("unknown", "fewer tokens train each expert; competitive at 2B to 9B, without a ratio",
                    "arXiv:2602.11543"),
    parts=own_experts,
)  # fmt: skip
