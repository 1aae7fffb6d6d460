"""torchtitan's own config and fragment code takes the files of each replica as they are meant.

TORCHTITAN names a checkout at the commit that the runtime writes for, VALIDATE_PYTHON an interpreter with
what its requirements.txt lists.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planner.inputs.load import load_model
from tests.cli.command import planner
from tests.validate.ask import PYTHON

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan"),
    pytest.mark.needs("tyro", "no interpreter with tyro in VALIDATE_PYTHON"),
]

TWO = """\
name: two
sites:
  - {name: a, cluster: dgx-h100, gpus: 16}
  - {name: b, cluster: dgx-h100, gpus: 16}
links:
  - {between: [a, b], bandwidth: 1 Gbit/s, round_trip: 60 ms}
"""


@pytest.mark.parametrize(
    ("sync", "method", "fragments", "compress"),
    [
        ("diloco", "diloco", 1, "int8"),
        ("streaming", "diloco", 10, "none"),
        ("local-sgd", "local_sgd", 1, "none"),
    ],
)
def test_files_are_taken_as_meant(
    tmp_path: Path, sync: str, method: str, fragments: int, compress: str
) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    out = tmp_path / "run"
    asked = (
        "--sync",
        sync,
        "--inner-steps",
        "100",
        "--compress",
        compress,
        "--global-batch",
        "64",
        "--tp",
        "2",
    )
    hardware = ("--hardware", str(tmp_path / "two.yaml"))
    done = planner("search", "llama3-8b", *hardware, *asked, "--recompute", "none", "--emit", str(out))
    assert done.code == 0, done.err
    config = ["--module", "titan_plan", "--config", "train", "--fault_tolerance.replica_id", "1",
              "--training.num_tokens_per_train_step", str(64 * 4096)]  # fmt: skip
    question = {"folder": str(out / "b"), "arguments": config}
    derived = derived_of(question)
    assert derived["classes"] == [
        "FaultTolerantTrainer.Config", "TorchFTOptimizersContainer.Config",
        "TorchFTCheckpointManager.Config", "FaultTolerantModelSpec",
    ]  # fmt: skip
    wanted = {"enable": True, "semi_sync_method": method, "sync_steps": 100, "num_fragments": fragments,
              "should_quantize": compress == "int8", "group_size": 2, "replica_id": 1}  # fmt: skip
    assert derived["settings"] | wanted == derived["settings"]
    assert len(derived["fragments"]) == fragments
    assert sum(derived["fragments"]) == load_model("llama3-8b").params
    assert derived["step_tokens"] == 64 * 4096


def derived_of(question: dict[str, object]) -> dict[str, Any]:
    """Return what torchtitan made of a folder."""
    script = Path(__file__).with_name("check_torchft.py")
    told = subprocess.run(
        [PYTHON, script], input=json.dumps(question), capture_output=True, text=True, check=True
    )
    answer = json.loads(told.stdout)
    assert "refused" not in answer, answer
    derived: dict[str, Any] = answer["derived"]
    return derived


def test_replica_groups_of_a_recovery_are_taken_as_meant(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ask = (
        "search",
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "32",
        "--runtime",
        "torchtitan",
        "--pp",
        "1",
    )
    goodput = (
        "--objective",
        "goodput",
        "--failures",
        "meta-a100",
        "--recovery",
        "torchft",
        "--storage",
        "1GB/s",
    )
    done = planner(*ask, *goodput, "--uniform", "--top", "1", "-q", "--format", "json", "--emit", str(out))
    assert done.code == 0, done.err
    groups = 32 // done.json["plans"][0]["estimate"]["plan"]["zero_shards"]
    for number in range(groups):
        config = ["--module", "titan_plan", "--config", "train", "--fault_tolerance.replica_id", str(number),
                  "--training.num_tokens_per_train_step", str(512 * 4096)]  # fmt: skip
        derived = derived_of({"folder": str(out / f"group-{number}"), "arguments": config})
        wanted = {"enable": True, "semi_sync_method": None, "group_size": groups, "min_replica_size": 1,
                  "replica_id": number}  # fmt: skip
        assert derived["settings"] | wanted == derived["settings"]
