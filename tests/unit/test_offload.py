"""Optimizer offload: the volumes and the host's Adam as ZeRO-Offload prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import host_optimizer_seconds, offload_seconds
from tests.cases import every
from tests.cli.command import planner_in


def test_four_bytes_of_each_parameter_cross_the_host_link() -> None:
    """arXiv:2101.06840, sec. 3.2: 16-bit gradients down, 16-bit weights up, the least of any split."""
    entry = OFFLOADS["optimizer"]
    assert (entry.down_bytes, entry.up_bytes) == (2, 2)
    # 10 billion parameters over a link of 16 GB/s: 40 GB in 2.5 s.
    assert offload_seconds(10e9, entry.down_bytes, entry.up_bytes, 16e9) == 2.5


@every(("params", "printed"), [(1e9, 0.22), (4e9, 1.03), (10e9, 2.57)])
def test_the_seconds_of_adam_on_the_host(params: float, printed: float) -> None:
    """arXiv:2101.06840, table 4, column CPU-Adam; one constant meets it within 15%."""
    assert host_optimizer_seconds(params, 1) == pytest.approx(printed, rel=0.15)


def test_the_ranks_of_a_node_share_its_processors() -> None:
    assert host_optimizer_seconds(1e9, 8) == 8 * host_optimizer_seconds(1e9, 1)


def test_nothing_moves_without_offload() -> None:
    entry = OFFLOADS["none"]
    assert (entry.optimizer, entry.down_bytes, entry.up_bytes) == (False, 0, 0)


@every(("gpus", "holds"), [(16, False), (32, True)])
def test_a_host_holds_no_more_than_its_memory(gpus: int, holds: bool, tmp_path: Path) -> None:
    """405 billion parameters, 14 bytes of each, nodes of 2 TB: 2.8 TB on each of two, 1.4 on each of four."""
    words = f"estimate llama3.1-405b --hardware dgx-h100 --gpus {gpus} --tp 8 --pp {gpus // 8}"
    answer = planner_in(
        tmp_path, *words.split(), "--offload", "optimizer", "--global-batch", "64", "--format", "json"
    )
    broken = [entry["rule"] for entry in json.loads(answer.out)["violations"]]
    assert ("host-holds-states" not in broken) == holds
