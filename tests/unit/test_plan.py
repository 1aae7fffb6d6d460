"""A plan as one record and as many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.plan import DEGREES, Plan
from tests.cases import every

BATCH = Plan(
    tp=np.array([1.0, 2.0, 4.0])[:, None],
    dp=np.array([8.0, 4.0])[None, :],
    pp=2.0,
    ep=2.0,
    zero=1,
    recompute="full",
)


def test_a_batch_has_the_shape_of_its_axes() -> None:
    assert BATCH.shape == (3, 2)
    assert Plan().shape == ()
    assert np.shape(BATCH.gpus) == (3, 2)


def test_a_row_is_the_scalar_plan() -> None:
    row = BATCH.row((2, 1), micro_batch=4.0)
    assert (row.tp, row.dp, row.pp, row.micro_batch, row.zero, row.recompute) == (4, 4, 2, 4, 1, "full")
    assert all(isinstance(getattr(row, name), float) for name in DEGREES)
    assert row.shape == ()


def test_ranks_add_up() -> None:
    plan = Plan(tp=4.0, pp=2.0, cp=2.0, dp=8.0, ep=8.0, etp=2.0)
    assert plan.gpus == 128
    assert plan.expert_dp == 4 * 2 * 8 / (8 * 2)
    assert plan.gpus == plan.pp * plan.ep * plan.etp * plan.expert_dp


def test_the_record_of_the_contract_has_whole_degrees() -> None:
    record = Plan(tp=8.0, stage_layers=(3, 4)).as_dict()
    assert record["tp"] == 8
    assert isinstance(record["tp"], int)
    assert record["stage_layers"] == [3, 4]
    assert set(DEGREES) | {
        "zero",
        "recompute",
        "sequence_parallel",
        "cp_method",
        "schedule",
        "offload",
    } < set(record)


@every(
    ("changes", "slug"),
    [
        ({}, "dp1-mb1-zero0"),
        ({"tp": 8.0, "pp": 4.0, "dp": 2.0, "zero": 1}, "tp8-pp4-dp2-mb1-zero1"),
        (
            {"recompute": "selective:mlp+norm", "offload": "optimizer"},
            "dp1-mb1-zero0-selectivemlp-norm-optimizer",
        ),
    ],
)
def test_a_slug_is_a_good_file_name(changes: dict[str, object], slug: str) -> None:
    assert replace(Plan(), **changes).slug == slug
    assert not set(slug) & set(":+/ ")
