"""How many scales an fp8 operand has."""

from __future__ import annotations

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.techniques.settings.family import Setting


def in_float8(model: ModelSpec, workload: Workload) -> bool:
    """Whether products run in fp8 with scales that are made anew for each."""
    return workload.precision == "fp8"


ENTRY = Setting(
    name="float8_scales",
    about="whether an fp8 operand has one scale, or one for each row (torchao's recipes tensorwise, rowwise)",
    cite="https://github.com/pytorch/ao/tree/main/torchao/float8",
    values={"rows": {"float8_scales": "rows"}, "tensor": {"float8_scales": "tensor"}},
    matters=in_float8,
    numerics=True,
    evidence={"tensor": "torchtitan's float8 runs, all but those of the recipe rowwise"},
)
