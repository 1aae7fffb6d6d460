"""Where groups lie: the function against every rank of every group, counted one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from planner.cost.traffic.messages import crosses
from planner.formulas.spread import spread
from tests.cases import every

JOBS = (*range(1, 25), 32, 40, 48, 64, 72, 96, 120, 128, 144, 192, 256, 288)


def divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def shapes(job: int) -> Iterator[tuple[int, int]]:
    """Strides and sizes of groups that fill a job."""
    for block in divisors(job):
        for stride in divisors(block):
            yield stride, block // stride


def every_group(job: int, stride: int, ranks: int) -> Iterator[list[int]]:
    block = stride * ranks
    for start in range(0, job, block):
        for offset in range(stride):
            yield [start + offset + stride * place for place in range(ranks)]


def counted(domain: int, job: int, stride: int, ranks: int) -> tuple[int, int, int]:
    members = [
        Counter(rank // domain for rank in group).values() for group in every_group(job, stride, ranks)
    ]
    straddling = [min(one) for one in members if len(one) > 1]
    return max(map(len, members)), min(straddling, default=ranks), max(map(max, members))


@pytest.mark.parametrize("domain", [2, 3, 4, 6, 8, 16, 64, 72])
def test_groups_lie_where_their_ranks_are(domain: int) -> None:
    for job in JOBS:
        every = list(shapes(job))
        strides, sizes = (np.array(column, dtype=float) for column in zip(*every, strict=True))
        together = spread(float(domain), float(job), strides, sizes)
        columns = [np.broadcast_to(column, strides.shape) for column in vars(together).values()]
        for row, (stride, ranks) in enumerate(every):
            wanted = counted(domain, job, stride, ranks)
            alone = spread(float(domain), float(job), float(stride), float(ranks))
            assert tuple(vars(alone).values()) == wanted, (job, stride, ranks)
            assert tuple(column[row] for column in columns) == wanted, (job, stride, ranks)


@every(("stride", "ranks", "fewest"), [(1, 64, 8), (8, 8, 1), (1, 128, 16), (2, 32, 4)])
def test_groups_of_64_straddle_racks_of_72(stride: int, ranks: int, fewest: int) -> None:
    """Counted on 1,152 ranks; ranks 64 to 127 have eight on the first rack and 56 on the second."""
    job = 1152
    found = spread(72.0, float(job), float(stride), float(ranks))
    assert (found.domains, found.fewest, found.largest) == counted(72, job, stride, ranks)
    assert found.fewest <= fewest


def test_a_group_alone_begins_at_the_first_rank() -> None:
    for ranks in range(1, 40):
        found = spread(8.0, 0.0, 1.0, float(ranks))
        assert (found.domains, found.fewest, found.largest) == counted(8, ranks, 1, ranks)


def test_an_outermost_tier_joins_all() -> None:
    found = spread(np.inf, 0.0, np.array([1.0, 3.0]), np.array([6.0, 5.0]))
    assert found.domains == 1.0
    assert np.array_equal(found.fewest, [6.0, 5.0])


@every("domain", [2, 4, 8, 72])
def test_messages_cross_where_some_rank_and_its_like_are_apart(domain: int) -> None:
    for job in (24, 48, 64, 144, 216):
        for stages in divisors(job):
            size = job // stages
            for one in range(stages):
                for other in {max(one - 1, 0), min(one + 1, stages - 1), 0, stages - 1}:
                    apart = any(
                        (one * size + place) // domain != (other * size + place) // domain
                        for place in range(size)
                    )
                    assert crosses(float(domain), float(one), float(other), float(size)) == apart
