"""Kubernetes: a Kubeflow TrainJob, a PyTorchJob for the older operator, and the script that submits one."""

from __future__ import annotations

import re

from planner.launchers._optional import commented, fill_block, optional
from planner.launchers._runs import start_block, training_block, variable_block
from planner.launchers._shell import comment, environment_block, file_block, head
from planner.launchers._yaml import Quoted, YamlScript, placeholder, yaml_text
from planner.launchers.family import Launcher, LauncherSettings, node_shape
from planner.runtimes.family import Command, Job

NAME = "submit.sh"
LONGEST_NAME = 42
"""An object has 63 letters at most, and pods of a job add up to 21: its replica, its place, a random end."""

GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi"}

SHARED_MEMORY = ("shared-memory", "/dev/shm")
FOLDERS = "folders"
"""The volume that holds the user's folders: a claim or a folder of the nodes."""

OWN = ("VOLUME", "HOST_PATH", "MOUNT", "RDMA_RESOURCE", "RDMA_COUNT", "QUEUE", "PULL_SECRET")
"""Variables of the manifests that may be unset; what hangs on one is a comment there until it is set."""

SUBMIT = """\
if [[ -n "${VOLUME}" && -n "${HOST_PATH}" ]]; then
  echo "Set VOLUME or HOST_PATH, not both." >&2
  exit 2
fi
export MOUNT=${MOUNT:-${HOST_PATH:-/workspace}} RDMA_COUNT=${RDMA_COUNT:-1}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
text=$(<"${HERE}/${1:-trainjob.yaml}")
FILLkubectl apply -f - <<< "${text}"
"""


def kept(text: str) -> str:
    """Return a text of which Kubernetes, which replaces ``$(NAME)`` and ``$$`` itself, leaves all as it is.

    Examples
    --------
    >>> kept("$(mktemp -d) ${HERE} $(HOME) $$")
    '$(mktemp -d) ${HERE} $$(HOME) $$$$'
    """
    return re.sub(r"\$+(?=\([-\w.]+\))|\${2,}", lambda run: run[0] * 2, text)


def object_name(text: str) -> str:
    """Return a job name as Kubernetes takes it: a letter first, and room for what pods and services add.

    Examples
    --------
    >>> object_name("70b-tp8")
    'job-70b-tp8'
    """
    name = text if text[0].isalpha() else f"job-{text}"
    return name[:LONGEST_NAME].rstrip("-")


def pod_script(command: Command) -> str:
    """Return what a container runs; the operator's PET variables tell torchrun its place."""
    files = dict(command.files or {})
    return (
        "set -euo pipefail\n"
        + ("HERE=$(mktemp -d)\n" if files else "")
        + file_block(files)
        + environment_block(command)
        + ('export PET_MAX_RESTARTS="${RESTARTS}"\n' if command.restarts else "")
        + training_block(command)
        + start_block(command, 'torchrun "${training[@]}"')
    )


def _resources(job: Job) -> dict[str, object]:
    """Return what a node's container gets; Kubernetes asks for network devices as a resource of their own."""
    _, ranks = node_shape(job)
    vendor = job.hardware.pool.accelerator.vendor.lower()
    devices = Quoted(optional("RDMA_RESOURCE", "{{RDMA_RESOURCE}}"))
    amount = {GPU_RESOURCES.get(vendor, f"{vendor}.com/gpu"): ranks, devices: placeholder("RDMA_COUNT")}
    return {"limits": amount, "requests": amount}


def _container(command: Command) -> dict[str, object]:
    return {
        "image": placeholder("IMAGE"),
        "command": ["bash", "-c", YamlScript(kept(pod_script(command)))],
        "env": [{"name": name, "value": placeholder(name)} for name in command.variables],
    }


def _mounts() -> list[dict[str, object]]:
    """Return shared memory, and the user's folders where they are on a volume."""
    name, place = SHARED_MEMORY
    folders = {"mountPath": placeholder("MOUNT")}
    return [
        {"name": name, "mountPath": place},
        {optional("VOLUME", "name"): FOLDERS, **folders},
        {optional("HOST_PATH", "name"): FOLDERS, **folders},
    ]


def _pod() -> dict[str, object]:
    """Return volumes and secrets of a pod."""
    claim = {"claimName": placeholder("VOLUME")}
    host = {"path": placeholder("HOST_PATH"), "type": "Directory"}
    return {
        "volumes": [
            {"name": SHARED_MEMORY[0], "emptyDir": {"medium": "Memory"}},
            {optional("VOLUME", "name"): FOLDERS, "persistentVolumeClaim": claim},
            {optional("HOST_PATH", "name"): FOLDERS, "hostPath": host},
        ],
        optional("PULL_SECRET", "imagePullSecrets"): [{"name": placeholder("PULL_SECRET")}],
    }


def _about(settings: LauncherSettings) -> dict[str, object]:
    labels = {"kueue.x-k8s.io/queue-name": placeholder("QUEUE")}
    return {"name": object_name(settings.name), optional("QUEUE", "labels"): labels}


def train_job(command: Command, job: Job, settings: LauncherSettings) -> dict[str, object]:
    """Return the TrainJob: a trainer, and patches of the pods that its training runtime describes."""
    nodes, ranks = node_shape(job)
    trainer = {"numNodes": nodes, "numProcPerNode": ranks, "resourcesPerNode": _resources(job)}
    pod = {**_pod(), "containers": [{"name": "node", "volumeMounts": _mounts()}]}
    node = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch = {
        "manager": "planner",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [node]}}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": _about(settings),
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": trainer | _container(command),
            "runtimePatches": [patch],
        },
    }


def pytorch_job(command: Command, job: Job, settings: LauncherSettings) -> dict[str, object]:
    """Return the PyTorchJob of the training operator v1: one master, the other nodes as workers."""
    nodes, ranks = node_shape(job)
    container = {"name": "pytorch"} | _container(command) | {"resources": _resources(job)}
    pod = {"containers": [{**container, "volumeMounts": _mounts()}], **_pod()}

    def replicas(count: int) -> dict[str, object]:
        return {"replicas": count, "restartPolicy": "OnFailure", "template": {"spec": pod}}

    specs = {"Master": replicas(1)} | ({"Worker": replicas(nodes - 1)} if nodes > 1 else {})
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _about(settings),
        "spec": {"nprocPerNode": Quoted(ranks), "pytorchReplicaSpecs": specs},
    }


def files(command: Command, job: Job, settings: LauncherSettings) -> dict[str, str]:
    """Return the submitting script and both manifests."""
    note = (
        "The image's working folder is the runtime's checkout; paths are those in the container.\n"
        f"Submit it with {NAME}, which puts the variables in and turns comments on where theirs are set."
    )
    start = f"Start it where kubectl reaches the cluster: bash {NAME} (or: bash {NAME} pytorchjob.yaml)"
    script = (
        head(settings, start)
        + "set -euo pipefail\n\n"
        + variable_block(command, settings, ("IMAGE",), OWN)
        + SUBMIT.replace("FILL", fill_block(OWN, (*command.variables, "IMAGE"), ("IMAGE", *OWN)))
    )
    top = comment(f"{settings.title}\n{note}")
    return {
        NAME: script,
        "trainjob.yaml": top + commented(yaml_text(train_job(command, job, settings))),
        "pytorchjob.yaml": top + commented(yaml_text(pytorch_job(command, job, settings))),
    }


ENTRY = Launcher(
    name="kubernetes",
    title="Kubernetes",
    cite="https://github.com/kubeflow/trainer/tree/8c0f5059",
    start=f"bash {NAME}",
    files=files,
    needs=("IMAGE",),
    aliases=("k8s", "kubeflow"),
    remote=True,
)
