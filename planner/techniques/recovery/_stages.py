"""What recoveries of a whole pipeline stage ask of a plan, and the plans that they can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.inputs.model import Experts, ModelSpec
from planner.plan import even_split
from planner.techniques.recovery.family import Held


def whole_stages(held: Held, least: int) -> Iterator[str]:
    """Yield why a lost node of a plan is not one pipeline stage whose neighbours are left.

    Parameters
    ----------
    held : Held
        The plan.
    least : int
        Stages that it needs. [-]
    """
    plan, stages = held.plan, int(held.plan.pp)
    if stages < least:
        yield f"needs {least} pipeline stages, and pp is {stages}"
    elif held.gpus // stages < held.per_node:
        wide = held.gpus // stages
        yield f"needs stages on whole nodes: of {wide} on {held.per_node} neighbours are lost together"
    if plan.vpp > 1:
        yield f"is described for one stage a rank, and vpp is {int(plan.vpp)}"
    if held.gpus // stages > held.per_node and plan.dp * plan.cp > 1 and plan.zero < 3:
        yield "is for lost stages, and other nodes have copies of each: elastic takes those exactly"


def layers_alike(held: Held) -> Iterator[str]:
    """Yield why the weights of neighbouring stages cannot be averaged."""
    model = held.model
    kinds = set(model.layers)
    if any(isinstance(model.blocks[name].ffn, Experts) for name in kinds):
        yield "is shown for dense models: experts of neighbouring layers are not alike"
    elif len(kinds) > 1:
        yield f"averages layers of one kind, and {model.name} has {len(kinds)}"


def even_stages(held: Held) -> Iterator[str]:
    """Yield that stages have unlike numbers of layers, so that one is no mean of two others."""
    split = held.plan.stage_layers or even_split(held.model.num_layers, int(held.plan.pp))
    if len(set(split)) > 1:
        yield f"averages stages of equally many layers, and they have {', '.join(map(str, split))}"


def stage_layouts(gpus: int, per_node: int, model: ModelSpec) -> Iterator[dict[str, Any]]:
    """Yield pipelines with a stage on each node, or one replica with a stage on two nodes or four."""
    for wide in (1, 2, 4):
        stages = gpus // (per_node * wide)
        if stages > 1 and stages * per_node * wide == gpus:
            yield {"pp": stages, "vpp": 1, **({"dp": 1, "cp": 1} if wide > 1 else {})}


def even_layouts(gpus: int, per_node: int, model: ModelSpec) -> Iterator[dict[str, Any]]:
    """Yield those of them whose stages have equally many layers."""
    for one in stage_layouts(gpus, per_node, model):
        layers, over = divmod(model.num_layers, one["pp"])
        if not over:
            yield one | {"stage_layers": (layers,) * one["pp"]}


def from_both_sides(held: Held) -> float:
    """Return what an accelerator gets: the weights of the stages before and after. [byte]"""
    return 2.0 * held.weight_bytes
