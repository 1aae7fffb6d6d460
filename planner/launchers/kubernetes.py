"""Kubernetes: a Kubeflow TrainJob, a PyTorchJob for the older operator, and the script that submits one."""

from __future__ import annotations

import re

from planner.launchers._family import Launcher, Settings, node_shape
from planner.launchers._runs import start_block, training_block, variable_block
from planner.launchers._shell import comment, environment_block, file_block, head
from planner.launchers._yaml import Quoted, Script, placeholder, yaml_text
from planner.plan import Plan
from planner.runtimes._family import Command, Job

NAME = "submit.sh"
LONGEST_NAME = 42
"""An object has 63 letters at most, and pods of a job add up to 21: its replica, its place, a random end."""

GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi"}

SUBMIT = """\
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
manifest=$(<"${HERE}/${1:-trainjob.yaml}")
for name in NAMES; do
  value=${!name//\\\\/\\\\\\\\}
  value=${value//\\"/\\\\\\"}
  value=${value//$'\\n'/\\\\n}
  value=${value//\\$/\\$\\$}
  manifest=${manifest//"{{${name}}}"/"${value}"}
done
kubectl apply -f - <<< "${manifest}"
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
        + training_block(command)
        + start_block(command, 'torchrun "${training[@]}"')
    )


def _container(command: Command, job: Job) -> dict[str, object]:
    _, ranks = node_shape(job)
    vendor = job.hardware.pool.accelerator.vendor.lower()
    amount = {GPU_RESOURCES.get(vendor, f"{vendor}.com/gpu"): ranks}
    return {
        "image": placeholder("IMAGE"),
        "command": ["bash", "-c", Script(kept(pod_script(command)))],
        "env": [{"name": name, "value": placeholder(name)} for name in command.variables],
        "resources": {"limits": amount, "requests": amount},
    }


def train_job(command: Command, job: Job, settings: Settings) -> dict[str, object]:
    """Return the TrainJob; volumes and secrets come from the training runtime that it names."""
    nodes, ranks = node_shape(job)
    container = _container(command, job)
    trainer = {"numNodes": nodes, "numProcPerNode": ranks, "resourcesPerNode": container.pop("resources")}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": object_name(settings.name)},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer | container},
    }


def pytorch_job(command: Command, job: Job, settings: Settings) -> dict[str, object]:
    """Return the PyTorchJob of the training operator v1: one master, the other nodes as workers."""
    nodes, ranks = node_shape(job)
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    container = {"name": "pytorch"} | _container(command, job)
    container["volumeMounts"] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]

    def replicas(count: int) -> dict[str, object]:
        pod = {"spec": {"containers": [container], "volumes": [shared]}}
        return {"replicas": count, "restartPolicy": "OnFailure", "template": pod}

    specs = {"Master": replicas(1)} | ({"Worker": replicas(nodes - 1)} if nodes > 1 else {})
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": object_name(settings.name)},
        "spec": {"nprocPerNode": Quoted(ranks), "pytorchReplicaSpecs": specs},
    }


def files(command: Command, plan: Plan, job: Job, settings: Settings) -> dict[str, str]:
    """Return the submitting script and both manifests."""
    note = (
        "The image's working folder is the runtime's checkout; paths are those in the container.\n"
        f"Submit it with {NAME}, which puts the variables in."
    )
    start = f"Start it where kubectl reaches the cluster: bash {NAME} (or: bash {NAME} pytorchjob.yaml)"
    script = (
        head(settings, start)
        + "set -euo pipefail\n\n"
        + variable_block(command, settings, ("IMAGE",), ())
        + SUBMIT.replace("NAMES", " ".join((*command.variables, "IMAGE")))
    )
    top = comment(f"{settings.title}\n{note}")
    return {
        NAME: script,
        "trainjob.yaml": top + yaml_text(train_job(command, job, settings)),
        "pytorchjob.yaml": top + yaml_text(pytorch_job(command, job, settings)),
    }


ENTRY = Launcher(
    name="kubernetes",
    title="Kubernetes",
    cite="https://github.com/kubeflow/trainer/tree/8c0f5059",
    start=f"bash {NAME}",
    files=files,
    needs=("IMAGE",),
    aliases=("k8s", "kubeflow"),
)
