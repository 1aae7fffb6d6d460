"""What each scheduler needs beside the command: time, folders, shared memory, devices, queues, storage."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from planner.runtimes.family import Command
from tests.cases import every
from tests.unit.test_launchers import recorded, run, stand_in
from tests.unit.test_smoke_runs import INSIDE, RAY, SPEAKS, SRUN, both, written


def batch(folder: Path, own: Command, **user: str) -> tuple[dict[str, str], list[str]]:
    """Run a batch script inside a job; return torchrun's environment and what scontrol was told."""
    programs = folder / "programs"
    programs.mkdir()
    stand_in(programs, "torchrun", SPEAKS.format(folder=programs))
    stand_in(programs, "srun", SRUN)
    stand_in(programs, "scontrol", f'#!/bin/bash\necho "$*" >> "{programs}/told"\necho first\n')
    written("slurm", folder, own)
    places = {"DATA_PATH": "d", "OUTPUT_DIR": str(folder / "o"), "ACCOUNT": "a", "PARTITION": "p"}
    done = run(folder / "train.sbatch", programs, **INSIDE, **places, **user)
    assert done.returncode == 0, done.stderr
    exported = (programs / "torchrun.env").read_text().split("\0")
    told = (programs / "told").read_text().splitlines()
    return dict(line.split("=", 1) for line in exported if line), told


SAVES = {"MINUTES": ("--exit-duration-in-mins", "${MINUTES}"), "WANDB_PROJECT": ()}


def test_a_job_with_an_end_saves_before_it_and_queues_again(tmp_path: Path) -> None:
    env, told = batch(tmp_path, both(where_set=SAVES), SLURM_JOB_END_TIME=str(int(time.time()) + 7230))
    assert env["MINUTES"] == "110"
    assert int(env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < 300
    assert told == ["show hostnames n[0-1]"]
    (tmp_path / "again").mkdir()
    env, told = batch(tmp_path / "again", both(where_set=SAVES), MINUTES="0")
    assert told == ["show hostnames n[0-1]", "requeue 7"]
    assert "#SBATCH --signal=TERM@300\n" in (tmp_path / "train.sbatch").read_text()


def test_a_job_that_is_over_almost_at_once_still_has_a_minute(tmp_path: Path) -> None:
    env, _ = batch(tmp_path, both(where_set=SAVES), SLURM_JOB_END_TIME=str(int(time.time()) + 100))
    assert env["MINUTES"] == "1"


def test_a_runtime_that_cannot_save_by_itself_is_left_alone(tmp_path: Path) -> None:
    env, told = batch(tmp_path, both(), SLURM_JOB_END_TIME=str(int(time.time()) + 7230))
    assert not {"MINUTES", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"} & env.keys()
    assert told == ["show hostnames n[0-1]"]
    assert "--signal" not in (tmp_path / "train.sbatch").read_text()


def test_slurm_is_told_what_the_user_sets_alone(tmp_path: Path) -> None:
    stand_in(tmp_path / "programs", "sbatch")
    written("slurm", tmp_path, both())
    user = {"DATA_PATH": "d", "OUTPUT_DIR": str(tmp_path / "o"), "ACCOUNT": "a", "PARTITION": "p"}
    script = tmp_path / "train.sbatch"
    assert run(script, tmp_path / "programs", **user).returncode == 0
    plain = recorded(tmp_path / "programs", "sbatch")
    said = {"TIME_LIMIT": "1-00:00:00", "QOS": "high $(id)", "RESERVATION": "r"}
    assert run(script, tmp_path / "programs", **user, **said).returncode == 0
    more = ["--time=1-00:00:00", "--qos=high $(id)", "--reservation=r"]
    assert recorded(tmp_path / "programs", "sbatch") == [*plain[:3], *more, plain[-1]]


def test_a_sky_task_mounts_the_bucket_where_there_is_one(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    stand_in(programs, "sky")
    files = written("skypilot", tmp_path, both())
    user = {"SMOKE": "1", "IMAGE": "i"}
    assert "file_mounts" not in yaml.safe_load(files["task.yaml"])
    assert run(tmp_path / "launch.sh", programs, **user).returncode == 0
    assert recorded(programs, "sky")[-1] == str(tmp_path / "task.yaml")
    more = {"BUCKET": 's3://a"b\\c', "TMPDIR": str(tmp_path)}
    assert run(tmp_path / "launch.sh", programs, **user, **more).returncode == 0
    task = yaml.safe_load(Path(recorded(programs, "sky")[-1]).read_text())
    assert task.pop("file_mounts") == {"/workspace": {"source": 's3://a"b\\c', "mode": "MOUNT_CACHED"}}
    assert task == yaml.safe_load(files["task.yaml"])


def manifests(folder: Path, kind: str, **user: str) -> dict[str, Any]:
    """Return what is applied."""
    stand_in(folder / "programs", "kubectl")
    written("kubernetes", folder, both())
    start = ["bash", str(folder / "submit.sh"), kind]
    path = f"{folder / 'programs'}:/usr/bin:/bin"
    env = {"PATH": path, "SMOKE": "1", "IMAGE": "i", **user}
    subprocess.run(start, env=env, check=True, stdin=subprocess.DEVNULL)
    manifest: dict[str, Any] = yaml.safe_load((folder / "programs/kubectl.stdin").read_text())
    return manifest


def pod_of(manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a node's pod, its container, and the container's resources."""
    spec = manifest["spec"]
    if manifest["kind"] == "PyTorchJob":
        pods = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
        return pods, pods["containers"][0], pods["containers"][0]["resources"]
    (patch,) = spec["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pods = node["template"]["spec"]["template"]["spec"]
    return pods, pods["containers"][0], spec["trainer"]["resourcesPerNode"]


SHARED = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
KINDS = ["trainjob.yaml", "pytorchjob.yaml"]


@every("kind", KINDS)
def test_a_pod_has_what_the_user_sets(kind: str, tmp_path: Path) -> None:
    user = {
        "VOLUME": "claim",
        "RDMA_RESOURCE": "rdma/hca",
        "RDMA_COUNT": "4",
        "QUEUE": "q",
        "PULL_SECRET": "s",
    }
    manifest = manifests(tmp_path, kind, **user)
    pods, container, resources = pod_of(manifest)
    assert manifest["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q"}
    claim = {"name": "folders", "persistentVolumeClaim": {"claimName": "claim"}}
    assert pods["volumes"] == [SHARED, claim]
    assert pods["imagePullSecrets"] == [{"name": "s"}]
    assert resources["limits"] == resources["requests"] == {"nvidia.com/gpu": 8, "rdma/hca": "4"}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"shared-memory": "/dev/shm", "folders": "/workspace"}


@every("kind", KINDS)
def test_a_pod_has_nothing_that_is_not_set(kind: str, tmp_path: Path) -> None:
    manifest = manifests(tmp_path, kind)
    pods, container, resources = pod_of(manifest)
    assert set(manifest["metadata"]) == {"name"}
    assert pods["volumes"] == [SHARED]
    assert "imagePullSecrets" not in pods
    assert resources["limits"] == {"nvidia.com/gpu": 8}
    assert [mount["name"] for mount in container["volumeMounts"]] == ["shared-memory"]


@every("kind", KINDS)
def test_a_folder_of_the_nodes_is_seen_at_its_own_place(kind: str, tmp_path: Path) -> None:
    pods, container, _ = pod_of(manifests(tmp_path, kind, HOST_PATH='/mnt/a "b" $c'))
    host = {"path": '/mnt/a "b" $c', "type": "Directory"}
    assert pods["volumes"] == [SHARED, {"name": "folders", "hostPath": host}]
    assert container["volumeMounts"][1] == {"name": "folders", "mountPath": '/mnt/a "b" $c'}


def test_a_claim_and_a_folder_at_once_are_refused(tmp_path: Path) -> None:
    written("kubernetes", tmp_path, both())
    done = run(tmp_path / "submit.sh", tmp_path, SMOKE="1", IMAGE="i", VOLUME="v", HOST_PATH="/h")
    assert (done.returncode, done.stderr) == (2, "Set VOLUME or HOST_PATH, not both.\n")


def test_ray_keeps_results_where_it_is_told(tmp_path: Path) -> None:
    own = both(files={"train.py": "import os\nprint(os.environ['STORAGE_PATH'])\n"})
    written("ray", tmp_path, own, smoke=True)
    (tmp_path / "train.py").write_text((own.files or {})["train.py"])
    (tmp_path / "stub.py").write_text(RAY)
    start = [sys.executable, str(tmp_path / "stub.py"), str(tmp_path / "train_ray.py")]
    for user in ({"STORAGE_PATH": "s3://b"}, {"OUTPUT_DIR": "s3://b"}):
        done = subprocess.run(start, env=user, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == "s3://b"
    done = subprocess.run(start, env={}, capture_output=True, text=True, check=False)
    assert "Set the variable OUTPUT_DIR" in done.stderr


def test_a_sky_task_by_itself_asks_for_what_is_needed_and_knows_the_rest(tmp_path: Path) -> None:
    (tmp_path / "smoke").mkdir()
    real = yaml.safe_load(written("skypilot", tmp_path, both())["task.yaml"])
    smoke = yaml.safe_load(written("skypilot", tmp_path / "smoke", both(), smoke=True)["task.yaml"])
    assert {name for name, value in real["envs"].items() if value is None} == {"DATA_PATH", "OUTPUT_DIR"}
    assert None not in smoke["envs"].values()
    assert (real["envs"]["SMOKE"], smoke["envs"]["SMOKE"]) == ("", "1")
    programs = tmp_path / "programs"
    stand_in(programs, "torchrun")
    (tmp_path / "node.sh").write_text(smoke["run"])
    node = {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    assert run(tmp_path / "node.sh", programs, **smoke["envs"], **node).returncode == 0
    assert recorded(programs, "torchrun")[-3:] == ["--seed", "1234", "--last"]
