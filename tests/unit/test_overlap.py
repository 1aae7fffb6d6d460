"""What is left of a communication after the compute that hides it, by hand and by played buckets."""

from __future__ import annotations

import pytest

from planner.formulas.overlap import exposed_seconds
from tests.cases import every


@every(
    ("communication", "window", "share", "exposed"),
    [
        (3, 2, 0, 1),
        (3, 3, 0, 0),
        (3, 9, 0, 0),
        (3, 0, 0, 3),
        (4, 9, 0.25, 1),
        (4, 3.5, 0.25, 1),
        (4, 1, 1, 4),
    ],
)
def test_by_hand(communication: float, window: float, share: float, exposed: float) -> None:
    assert exposed_seconds(communication, window, share) == exposed


@every(("bucket", "compute"), [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (5.0, 1.0)])
def test_buckets_behind_a_backward_pass_as_played(bucket: float, compute: float) -> None:
    """Ten layers; the bucket of each may start when its gradient is there, one bucket at a time."""
    layers = 10
    free = 0.0
    for layer in range(layers):
        free = max(free, (layer + 1) * compute) + bucket
    played = free - layers * compute
    # Behind all buckets but the last, nine layers of compute are the window; the last one is always exposed.
    window = (layers - 1) * compute
    assert exposed_seconds(layers * bucket, window, 1 / layers) == pytest.approx(played)
