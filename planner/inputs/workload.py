"""What is to be trained: sequences, batch, precision, optimizer, and how much of the model learns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from planner.inputs.record import Record

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]

DTYPE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
"""Bytes of one element. [byte]"""


class Workload(Record):
    """A training job, apart from the model and the cluster.

    ``optimizer``, ``precision`` and ``method`` name entries of the tables in ``planner.techniques``; a dtype
    of None is the runtime's own.
    """

    seq_len: PositiveInt = 4096
    global_batch: PositiveInt = 512
    precision: str = "bf16"
    optimizer: str = "adamw"
    state_dtype: Dtype | None = None
    master_dtype: Dtype | None = None
    gradient_dtype: Dtype | None = None
    method: str = "full"
    lora_rank: PositiveInt = 16
    imbalance: Annotated[float, Field(ge=1.0)] = 1.0
    tokens: PositiveFloat | None = None

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one optimizer step. [-]"""
        return self.seq_len * self.global_batch
