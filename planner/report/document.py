"""What a document that the planner printed must hold before it is drawn: keys, types, signs."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.errors import InputError, Problem
from planner.report.as_json import SEARCH

MOST_PLANS: Final = 10_000
"""Plans that a page draws."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Degree = Annotated[int, Field(ge=1, le=10**9)]
Word = Annotated[str, Field(max_length=1000)]


class _Document(BaseModel):
    """A part of a document: what is drawn is checked, other keys are let through."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Model(_Document):
    name: Word
    params: Amount


class _Hardware(_Document):
    name: Word
    gpus: Degree


class _Workload(_Document):
    seq_len: Degree
    global_batch: Degree
    precision: Word
    optimizer: Word
    method: Word


class _Plan(_Document):
    tp: Degree
    pp: Degree
    vpp: Degree
    cp: Degree
    ep: Degree
    etp: Degree
    dp: Degree
    zero: Annotated[int, Field(ge=0, le=3)]
    zero_shards: Degree
    micro_batch: Degree
    num_microbatches: Degree | None
    recompute: Word
    sequence_parallel: bool
    cp_method: Word
    schedule: Word
    offload: Word
    stage_layers: list[Count] | None
    prediction_apart: bool = False


class _Stage(_Document):
    stage: Count
    moment: Word


class _Memory(_Document):
    capacity_gib: Amount
    peak_gib: Amount | None
    stages: list[_Stage]


class _Estimate(_Document):
    model: _Model
    hardware: _Hardware
    workload: _Workload
    runtime: Word
    defaults: dict[str, Any]
    plan: _Plan
    feasible: bool
    step_time_s: Amount | None
    tokens_per_s_per_gpu: Amount | None
    mfu: Amount | None
    hfu: Amount | None
    error_band: Amount | None
    oom_probability: Amount | None
    extrapolated_share: Amount | None
    cost_usd_per_step: Amount | None
    time_s: dict[str, Amount | None]
    memory: _Memory


class _Priced(_Estimate):
    step_time_s: Amount


class _Baseline(_Estimate):
    name: Word


class _Space(_Document):
    enumerated: Count
    valid: Count
    fits: Count
    removed: dict[str, Count]


class _Optimality(_Document):
    proved: bool
    gap: Amount | None
    over: Word | None


class SearchDocument(_Document):
    """What ``planner search --format json`` prints, as far as a page draws it."""

    schema_: Literal[SEARCH] = Field(alias="schema")  # type: ignore[valid-type]
    plans: Annotated[list[_Priced], Field(max_length=MOST_PLANS)]
    baselines: Annotated[list[_Baseline], Field(max_length=MOST_PLANS)]
    space: _Space
    nearest: dict[str, Any] | None
    elapsed_s: Amount
    optimality: _Optimality


def check_search(document: dict[str, Any], where: str) -> None:
    """Refuse a document that ``search`` cannot have printed, with every fault.

    Raises `InputError`: each fault with the place of the value in the document.
    """
    try:
        SearchDocument.model_validate(document)
    except ValidationError as error:
        raise InputError(
            Problem(
                f"{where}: {'.'.join(map(str, fault['loc']))}",
                "nothing" if fault["type"] == "missing" else repr(fault["input"])[:60],
                f"the whole document that `planner search` printed ({fault['msg'].lower()})",
            )
            for fault in error.errors(include_url=False)[:20]
        ) from None
