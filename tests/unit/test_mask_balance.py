"""Masks on ranks that share a sequence: against every pair, against what their authors print."""

from __future__ import annotations

import numpy as np
import pytest

from planner.cost.layer.mask_balance import Mask, balance
from planner.errors import InputError
from planner.formulas.ring_rounds import flat_ring_seconds, nested_ring_seconds
from planner.question.mask import read_mask
from planner.techniques.layouts import TOKEN_LAYOUTS
from tests.cases import every
from tests.cli.command import planner

DENSE = Mask()
LINES = Mask(columns=4096, window=4096, slashes=((32768, 4096), (131072, 4096)))
"""Vertical and slash lines that leave about a twentieth of 512K tokens, MTraining's 95% of sparsity."""

MASKS = {
    "dense": DENSE,
    "window": Mask(window=9),
    "lines": Mask(columns=5, window=7, slashes=((20, 6), (50, 3))),
    "overlapping": Mask(columns=30, window=7, slashes=((5, 6), (8, 9))),
    "documents": Mask(documents=(10, 37, 5)),
    "both": Mask(columns=3, window=4, documents=(40, 24)),
}


def seen(mask: Mask, query: int, key: int, seq: int) -> bool:
    """The mask as it is said, pair by pair."""
    begin = 0
    lengths = iter(mask.documents * seq)
    while mask.documents and begin + (length := next(lengths)) <= query:
        begin += length
    if not begin <= key <= query:
        return False
    distance = query - key
    lines = [key - begin < mask.columns, distance < mask.window]
    lines += [far <= distance < far + width for far, width in mask.slashes]
    return any(lines) or not mask.is_sparse


def owner(name: str, token: int, seq: int, ranks: int) -> int:
    part = token // (seq // (2 * ranks))
    return {"contiguous": part // 2, "striped": token % ranks, "zigzag": min(part, 2 * ranks - 1 - part)}[
        name
    ]


@every("name", TOKEN_LAYOUTS)
@every("mask", MASKS.values(), ids=MASKS)
def test_balance_is_that_of_all_pairs(name: str, mask: Mask) -> None:
    seq, ranks = 128, 4
    work = np.zeros((ranks, ranks))
    for query in range(seq):
        for key in range(query + 1):
            work[owner(name, query, seq, ranks), owner(name, key, seq, ranks)] += seen(mask, query, key, seq)
    mean = work.sum() / ranks
    rounds = [max(work[rank, (rank - turn) % ranks] for rank in range(ranks)) for turn in range(ranks)]
    found = balance(mask, TOKEN_LAYOUTS[name], seq, ranks)
    assert found.whole == pytest.approx(work.sum(axis=1).max() / mean)
    assert found.ring == pytest.approx(sum(rounds) / mean)
    assert found.density == pytest.approx(work.sum() / (seq * (seq + 1) / 2))


def test_zigzag_is_right_for_dense_attention_and_wrong_for_sparse() -> None:
    """MTraining, arXiv:2510.18830: over 2.4 by zigzag and about 1.0 by stripes, 512K tokens on 32 ranks."""
    seq, ranks = 512 * 1024, 32
    zigzag, striped, parts = (TOKEN_LAYOUTS[name] for name in ("zigzag", "striped", "contiguous"))
    assert balance(DENSE, zigzag, seq, ranks).ring == pytest.approx(1.0, abs=0.02)
    assert balance(DENSE, parts, seq, ranks).whole == pytest.approx(2 - 1 / ranks, abs=0.01)
    assert balance(LINES, zigzag, seq, ranks).density == pytest.approx(0.05, abs=0.02)
    assert balance(LINES, zigzag, seq, ranks).ring > 2.4
    assert balance(LINES, striped, seq, ranks).ring == pytest.approx(1.0, abs=0.03)


def test_rounds_take_what_their_authors_print() -> None:
    """32 A100 on 4 nodes: 34.10 ms in one ring, 19.53 in two, with 1.13 and 2.08 ms for the index."""
    index, compute, outer, inner = 1.13 + 2.08, 0.51, 0.98, 0.13
    assert index + flat_ring_seconds(32, compute, outer) == pytest.approx(34.10, abs=0.005)
    nested = index + nested_ring_seconds(32, 8, compute, inner, outer)
    assert nested == pytest.approx(19.53, abs=0.005)
    assert nested / 34.10 - 1 == pytest.approx(-0.427, abs=0.001)


def test_a_message_between_domains_shows_where_an_inner_turn_is_shorter() -> None:
    hidden, shown = (nested_ring_seconds(32, 8, 0.1, 0.05, outer) for outer in (0.8, 1.0))
    assert hidden == pytest.approx(3.2)
    assert shown == pytest.approx(3.2 + 3 * 0.2)


@every(
    ("text", "mask"),
    [
        ("causal", Mask()),
        ("Window:4K", Mask(window=4096)),
        ("columns:1Ki + slash:0:8 + slash:64K:1K", Mask(columns=1024, slashes=((0, 8), (65536, 1024)))),
        ("documents:10:20", Mask(documents=(10, 20))),
    ],
)
def test_masks_are_read(text: str, mask: Mask) -> None:
    assert read_mask(text) == mask


@every("text", ["", "colums:4", "window", "window:0", "window:4+window:4", "slash:4", "documents:"])
def test_masks_that_are_none_are_told(text: str) -> None:
    with pytest.raises(InputError, match="--mask"):
        read_mask(text)


def test_the_command_tells_layouts_and_times() -> None:
    words = ["balance", "--seq-len", "512K", "--cp", "32", "--mask", "window:8K", "--format", "json"]
    told = planner(*words, "--round-times", "0.51,0.98,0.13").json
    rows = {row["layout"]: row for row in told["layouts"]}
    assert set(rows) == set(TOKEN_LAYOUTS)
    assert rows["striped"]["one_ring_time"] == pytest.approx(34.10 - 1.13 - 2.08, rel=1e-3)
    assert rows["striped"]["nested_rings_time"] == pytest.approx(19.53 - 1.13 - 2.08, rel=1e-3)
    wrong = planner("balance", "--seq-len", "1000", "--cp", "32", "--domain", "5", "--round-times", "1")
    assert wrong.code == 2
    assert all(option in wrong.err for option in ("--seq-len", "--domain", "--round-times"))
