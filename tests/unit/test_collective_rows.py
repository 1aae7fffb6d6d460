"""What nccl-tests should show: its own definitions, and what it did show."""

from __future__ import annotations

import pytest

from planner.inputs.load_hardware import load_hardware
from planner.report.collectives import collective_rows, collectives_page
from planner.report.page import Table
from planner.units import MIB
from tests.cli.command import planner

BUS_FACTORS = {"all-gather": 15 / 16, "reduce-scatter": 15 / 16, "all-reduce": 30 / 16, "all-to-all": 15 / 16}
"""nccl-tests, doc/PERFORMANCE.md, for 16 ranks."""


def test_bandwidths_follow_the_definitions_of_nccl_tests() -> None:
    rows = [*collective_rows(load_hardware("dgx-h100"), 16, [64 * MIB])]
    assert {row["collective"] for row in rows} == {*BUS_FACTORS, "send-receive"}
    for row in rows:
        assert row["algbw_gb_per_s"] == pytest.approx(67_108_864 / row["time_s"] / 1e9)
        factor = BUS_FACTORS.get(row["collective"], 1.0)
        assert row["busbw_gb_per_s"] == pytest.approx(factor * row["algbw_gb_per_s"])


def test_eight_h100_show_what_was_measured() -> None:
    """335 GB/s of all-gather and reduce-scatter at 512 MiB: the table named in the profile of the links."""
    for row in collective_rows(load_hardware("dgx-h100"), 8, [512 * MIB]):
        if row["collective"] in ("all-gather", "reduce-scatter"):
            assert row["busbw_gb_per_s"] == pytest.approx(335, rel=0.02)


def test_no_ring_beats_its_links_and_larger_messages_are_never_slower() -> None:
    profile = load_hardware("dgx-h100")
    ports = profile.pool.tiers[-1].bandwidth / 1e9
    for gpus in (2, 8, 16, 64):
        rows = [*collective_rows(profile, gpus)]
        for name in {row["collective"] for row in rows}:
            rates = [row["busbw_gb_per_s"] for row in rows if row["collective"] == name]
            assert rates == sorted(rates)
            assert rates[-1] <= 450
        sent = next(row["busbw_gb_per_s"] for row in reversed(rows))
        assert (sent <= ports) == (gpus > 8)


def test_the_page_has_one_row_for_each_size() -> None:
    page = collectives_page(load_hardware("l40s-8-pcie"), 8, [MIB, 4 * MIB])
    (table,) = (part for part in page if isinstance(part, Table))
    assert [row["size"] for row in table.rows] == ["1 MiB", "4 MiB"]


def test_the_command_answers_and_tells_faults_at_once() -> None:
    done = planner("hardware", "collectives", "dgx-h100", "--size", "1GiB", "--format", "json")
    assert done.code == 0
    assert {(row["gpus"], row["size_bytes"]) for row in done.json} == {(16, 2**30)}
    refused = planner("hardware", "collectives", "dgx-h10", "--gpus", "1", "--size", "big")
    assert refused.code == 2
    for words in ("3 faults", "nearest: dgx-h100", "--gpus", "--size"):
        assert words in refused.err
