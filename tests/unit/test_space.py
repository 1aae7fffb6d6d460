"""The space of plans against a plain loop over every combination."""

from __future__ import annotations

from itertools import product

import numpy as np

from planner.plan import DEGREES
from planner.rules import divisors
from planner.search.space import AXES, SHORT_CHUNKS, axis_values, make_space
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job


@every(("model", "gpus", "batch"), [("dense", 8, 8), ("experts", 4, 6), ("tied", 6, 12)])
def test_the_space_is_what_a_loop_over_all_degrees_leaves(model: str, gpus: int, batch: int) -> None:
    work = job(MODELS[model], gpus, global_batch=batch)
    layers, has_experts = work.model.num_layers, model == "experts"
    counted, cells = set(), 0
    axes = axis_values(work, {})
    for tp, cp, pp, micro, vpp, ep, etp in product(*(axes[axis] for axis in AXES)):
        cells += 1
        if gpus % (tp * cp * pp) or pp * vpp > layers or (vpp > 1 and pp == 1):
            continue
        dp = gpus // (tp * cp * pp)
        if batch % (micro * dp) or (vpp > 1 and -layers % (pp * vpp) > SHORT_CHUNKS):
            continue
        if (tp * cp * dp) % (ep * etp) or (has_experts and 8 % ep) or tp % etp:
            continue
        counted.add((tp, cp, pp, micro, vpp, ep, etp, dp))
    space = make_space(work, {})
    columns = [np.asarray(getattr(space.rows, axis)) for axis in (*AXES, "dp")]
    assert {tuple(int(value) for value in row) for row in zip(*columns, strict=True)} == counted
    assert space.size == len(counted)
    assert space.cells == cells == len(counted) + sum(space.removed.values())


def test_every_divisor_is_tried_and_not_only_powers_of_two() -> None:
    values = axis_values(job(gpus=48, global_batch=96), {})
    assert values["tp"] == [tp for tp in divisors(48) if tp <= 16]
    assert 3 in values["pp"]
    assert 12 in values["pp"]
    assert values["micro_batch"] == divisors(96)


def test_models_without_experts_have_no_expert_axes() -> None:
    assert axis_values(job(), {})["ep"] == axis_values(job(), {})["etp"] == [1]


def test_what_the_user_fixes_stays() -> None:
    space = make_space(job(), {"tp": 2, "dp": 4})
    assert set(np.asarray(space.rows.tp).tolist()) == {2}
    assert set(np.asarray(space.rows.dp).tolist()) == {4}
    assert space.removed["fixed-by-user"] > 0


def test_a_split_fixes_the_number_of_chunks() -> None:
    space = make_space(job(), {}, split=(4, 4, 4))
    chunks = np.asarray(space.rows.pp) * np.asarray(space.rows.vpp)
    assert set(chunks.tolist()) <= {3}


def test_rows_are_whole_and_complete() -> None:
    rows = make_space(job(MODELS["experts"], 16), {}).rows
    for name in DEGREES:
        column = np.asarray(getattr(rows, name))
        assert (column == np.floor(column)).all()
        assert (column >= 1).all()
    assert (np.asarray(rows.gpus) == 16).all()
    assert (np.asarray(rows.micro_batch * rows.num_microbatches * rows.dp) == 32).all()


def test_nothing_is_left_where_nothing_divides() -> None:
    assert make_space(job(), {"tp": 3}).size == 0
