"""Activations between the two products of a feed-forward: what they keep and move."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import input_bytes
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.numeric import Num


def activation_input_bytes(case: Case, gated: bool) -> float:
    """Bytes kept of each element that an activation reads: 16 bit, or fp8 where the recipe says so. [byte]

    The gradient of a rectifier follows from its result, which the product after it keeps.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``megatron/core/fusions/fused_bias_swiglu.py``, ``SwiGLUFunction``:
       ``fp8_input_store``; ``transformer_config.py``: for SwiGLU alone.
    """
    if case.model.numerics.activation == "relu" and not gated:
        return 0.0
    if case.model.numerics.activation == "xielu" and not case.traits.kernels.compiled:
        return traffic.XIELU_BYTES
    return 1.0 if case.traits.low_bit.fp8_activation_input and gated else 2.0


def activation_operator(pricer: Pricer, name: str, module: str, elements: Num, gated: bool) -> Operator:
    """Price the activation between the two products of a feed-forward."""
    case = pricer.case
    fused = case.traits.kernels.fused_activation or case.traits.kernels.compiled
    plain = traffic.PLAIN_KINDS.get(str(case.model.numerics.activation), traffic.PLAIN)
    moved = (traffic.GATED if gated else plain)[fused]
    bounded = case.model.numerics.activation == "swiglu_oai"
    if gated and bounded and not case.traits.kernels.compiled:
        moved = moved.beside(traffic.CLAMP)
    chain = 0.0 if fused or not gated else (traffic.BOUNDED_BYTES if bounded else 2.0) * elements
    reader = (name.replace("_activation", "_out"),)
    saved = input_bytes(case, reader) * elements + chain
    activation = pricer.elementwise(name, module, elements, moved, saved=saved)
    if not (gated and case.traits.low_bit.fp8_activation_input):
        return activation
    store = pricer.elementwise(name, module, elements, traffic.LOW_BIT_STORE)
    return activation.with_values(
        forward=activation.forward + store.forward, backward=activation.backward + store.backward
    )
