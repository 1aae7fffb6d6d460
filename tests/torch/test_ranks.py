"""Several ranks on one processor: collectives of every group, a rank that never comes, one that stops."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from planner.formulas.collective_curves import BUS_FACTOR
from planner.inputs.load_hardware import load_hardware
from planner.profile.store import RawTable
from tests.helpers import ROOT, user_environment

pytestmark = pytest.mark.torch


def torchrun(
    folder: Path, ranks: int, *program: str, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    return subprocess.run(
        (*command, *program), cwd=folder, env=user_environment(folder, ROOT), capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip


def test_all_collectives_of_all_groups_are_measured(tmp_path: Path) -> None:
    options = (
        *("--device", "cpu", "--minutes", "0.2", "--out", "mine.yaml"),
        *("--only", "gemm", "--only", "collectives", "--only", "overlap"),
    )
    done = torchrun(tmp_path, 3, "-m", "planner", "profile", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = RawTable(tmp_path / "mine.raw.jsonl", {}).rows
    timed = [row for row in rows if row["bench"] == "collectives" and "seconds" in row]
    assert {(row["variant"], row["shape"]["ranks"]) for row in timed} == {
        (operation, ranks) for operation in BUS_FACTOR for ranks in (2, 3)
    }
    assert any(row["bench"] == "overlap" for row in rows)
    profile = load_hardware(str(tmp_path / "mine.yaml"))
    assert profile.pool.scaleup_domain == 3
    assert profile.pool.node.scaleup.bandwidth.standing == "measured"
    assert done.stdout.count("use it with") == 1


LATE = """
    import os, sys, time
    from planner.profile.collectives import measure_group
    from planner.profile.device import open_device
    from planner.profile.ranks import open_ranks
    from planner.profile.stopped import Stopped

    device = open_device("cpu")
    ranks = open_ranks(device, 3.0)
    if ranks.rank == 1:
        time.sleep(8)
        os._exit(0)
    try:
        list(measure_group(ranks, ranks.world, device, set()))
    except Stopped as error:
        print(f"TOLD {error}", flush=True)
        os._exit(0)
"""


def test_a_rank_that_never_comes_is_named_with_its_group(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(textwrap.dedent(LATE), encoding="utf-8")
    done = torchrun(tmp_path, 2, "late.py")
    assert (
        "TOLD rank 1 of group 'all ranks' (ranks 0, 1) did not arrive at all_reduce of 1024 bytes"
        in done.stdout
    )


HANGS = """
    import time
    from planner.profile import collectives
    from planner.profile.device import open_device
    from planner.profile.ranks import open_ranks

    ranks = open_ranks(open_device("cpu"), 3.0)
    if ranks.rank == 1:
        ranks.arrive("all_reduce of 1024 bytes", ranks.world)
        time.sleep(20)
    list(collectives.measure_group(ranks, ranks.world, open_device("cpu"), set()))
"""


def test_a_collective_that_hangs_is_given_up_and_named(tmp_path: Path) -> None:
    """Rank 1 arrives and then never takes part, as a rank with a dead link does."""
    (tmp_path / "hangs.py").write_text(textwrap.dedent(HANGS), encoding="utf-8")
    done = torchrun(tmp_path, 2, "hangs.py")
    told = "all_reduce of 1024 bytes in group 'all ranks' (ranks 0, 1) has not ended after 3 s on rank 0"
    assert f"error: {told}" in done.stderr, done.stdout + done.stderr[-2000:]
    assert done.returncode == 1


ALONE = """
    import os
    os.environ |= {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
    from planner.profile.device import open_device
    from planner.profile.ranks import open_ranks
    from planner.profile.stopped import Stopped
    try:
        open_ranks(open_device("cpu"), 2.0)
    except Stopped as error:
        print(f"TOLD {error}", flush=True)
"""


def test_ranks_that_never_start_are_told(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(textwrap.dedent(ALONE), encoding="utf-8")
    done = subprocess.run(
        (sys.executable, "alone.py"), cwd=tmp_path, env=user_environment(tmp_path, ROOT), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "TOLD rank 0 waited 2 s for the group of all 2 ranks, and not all came" in done.stdout, (
        done.stderr[-1500:]
    )
