"""Casts of products' inputs and gradients to low-precision formats."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import has_adapter
from planner.formulas.gemm import GemmCurve, quantisation_seconds
from planner.numeric import Num


def cast_seconds(case: Case, elements: Num, curve: GemmCurve) -> Num:
    """Seconds to bring a tensor to the curve's data type, in each layout that the passes need. [s]"""
    layouts = case.precision.training_casts if case.method.trains_base else 1.0
    passes = DELAYED_CAST if case.precision.delayed else 1.0
    if case.rowwise:
        passes = ROWWISE_CASTS
    return passes * quantisation_seconds(elements * layouts, curve)


ROWWISE_CASTS = 3.0
"""Time of the casts of a product's input and gradient by rows, over one of each with a scale for the tensor:
both are cast again by columns for the weight gradient, whose maxima and transposed result take twice the
passes over memory (torchao, ``float8/float8_linear.py``, recipe ``rowwise``). [-]
"""

DELAYED_CAST = (2.0 + 1.0) / (2.0 + 2.0 + 1.0)
"""Time of a cast to fp8 whose scale is known over that of one that reads the tensor for it first. [-]"""


def input_cast_seconds(case: Case, name: str, elements: Num, curve: GemmCurve) -> Num:
    """Seconds of the cast of a product's input, none where the norm or activation before it writes low bits.

    These can where the scale is known before; the norm must not where an adapter reads its result too.

    References
    ----------
    .. [1] NVIDIA, Transformer Engine v2.9, ``transformer_engine/pytorch/module/layernorm_linear.py``:
       ``with_quantized_norm``; ``transformer_engine/pytorch/csrc/extensions/activation.cpp``: fully fused
       with a delayed scale, in two kernels with that of now.
    """
    in_norm = case.norms.in_product and name in IN_NORM and not has_adapter(case, name)
    fused = in_norm or (case.traits.adapters.operator_fuser and name == "mlp_out")
    return 0.0 if case.precision.delayed and fused else cast_seconds(case, elements, curve)


def gradient_cast_seconds(case: Case, name: str, elements: Num, curve: GemmCurve) -> Num:
    """Seconds of the cast of a result's gradient, none where the activation's backward pass does it."""
    fused = case.traits.adapters.operator_fuser and name == "mlp_in"
    return 0.0 if case.precision.delayed and fused else cast_seconds(case, elements, curve)


IN_NORM = ("qkv", "mlp_in")
"""Products whose layer holds the norm before them, where a runtime has such."""
