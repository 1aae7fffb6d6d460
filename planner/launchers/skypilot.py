"""SkyPilot: a task for any of its clouds, and the command that launches it."""

from __future__ import annotations

from textwrap import indent
from typing import Final

from planner.errors import UnsupportedPlan
from planner.launchers._optional import commented, fill_block, optional
from planner.launchers._runs import default_block, start_block, training_block, variable_block
from planner.launchers._shell import argument_lines, comment, environment_block, file_block, head
from planner.launchers._yaml import Quoted, YamlScript, placeholder, yaml_text
from planner.launchers.family import Launcher, LauncherSettings, node_shape
from planner.runtimes.family import Command, Job

NAME = "launch.sh"
TASK = "task.yaml"

ACCELERATORS: Final = {
    "a100-40gb-sxm": "A100",
    "a100-80gb-sxm": "A100-80GB",
    "b200-180gb": "B200",
    "gb200-186gb": "GB200",
    "h100-80gb-sxm": "H100",
    "h200-141gb": "H200",
    "l40s": "L40S",
    "mi300x-192gb": "MI300X",
    "v100-32gb": "V100-32GB",
}
"""The planner's name of an accelerator to SkyPilot's."""

OWN: Final = ("BUCKET", "MOUNT")
"""Variables of the task that may be unset; without a bucket it is launched as it is."""

LAUNCH: Final = """\
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
task=${HERE}/TASK
if [[ -n "${BUCKET}" ]]; then
  export MOUNT=${MOUNT:-/workspace}
  text=$(<"${task}")
FILL  task=$(mktemp -t task.XXXXXX.yaml)
  printf '%s\n' "${text}" > "${task}"
fi
"""

LEAD = 'launch+=(--node-rank "${SKYPILOT_NODE_RANK}" --master-addr "${SKYPILOT_NODE_IPS%%$\'\\n\'*}")\n'


def _run(command: Command, job: Job, settings: LauncherSettings) -> str:
    nodes, ranks = node_shape(job)
    launch = ("--nnodes", str(nodes), "--nproc-per-node", str(ranks), "--master-port", str(settings.port))
    files = dict(command.files or {})
    return (
        "set -euo pipefail\n"
        + ("HERE=$(mktemp -d)\n" if files else "")
        + file_block(files)
        + default_block(command)
        + environment_block(command)
        + f"launch=(\n{argument_lines(launch)})\n"
        + LEAD
        + training_block(command)
        + start_block(command, 'torchrun "${launch[@]}" "${training[@]}"', ends=False)
    )


def _variables(command: Command, settings: LauncherSettings) -> dict[str, str | None]:
    """Return the variables; SkyPilot asks for those without a value, which a run cannot do without."""
    needed = (*command.needs, *(() if settings.smoke else command.production_needs))
    known: dict[str, str | None] = dict.fromkeys(command.variables, "")
    return known | {"SMOKE": "1" if settings.smoke else ""} | dict.fromkeys(needed)


def task(command: Command, job: Job, settings: LauncherSettings) -> dict[str, object]:
    """Return the task.

    Raises `UnsupportedPlan` if SkyPilot's name of the accelerator is not known.
    """
    nodes, ranks = node_shape(job)
    accelerator = job.hardware.pool.accelerator.name
    if accelerator not in ACCELERATORS:
        known = ", ".join(ACCELERATORS)
        raise UnsupportedPlan(
            f"launcher skypilot: no name known for {accelerator}; names are known for {known}"
        )
    resources: dict[str, object] = {
        "accelerators": f"{ACCELERATORS[accelerator]}:{ranks}",
        "network_tier": "best",
    }
    if command.restarts:  # of `sky jobs launch`, which looks after the task
        resources["job_recovery"] = {"max_restarts_on_errors": int(command.defaults["RESTARTS"])}
    return {
        "name": settings.name,
        "num_nodes": nodes,
        "resources": resources,
        optional("BUCKET", "file_mounts"): {
            Quoted("{{MOUNT}}"): {"source": placeholder("BUCKET"), "mode": "MOUNT_CACHED"}
        },
        "envs": _variables(command, settings),
        "run": YamlScript(f"(\n{_run(command, job, settings)})\n"),
    }


def files(command: Command, job: Job, settings: LauncherSettings) -> dict[str, str]:
    """Return the task and the script that launches it."""
    passed = " ".join(f"--env {name}" for name in command.variables)
    script = (
        head(settings, f"Start it where SkyPilot is set up: bash {NAME}")
        + "set -euo pipefail\n\n"
        + variable_block(command, settings, ("IMAGE",), OWN)
        + LAUNCH.replace("FILL", indent(fill_block(OWN), "  ")).replace("TASK", TASK)
        + f'exec sky launch --image-id "docker:${{IMAGE}}" {passed} "${{task}}"\n'
    )
    note = (
        "The image's working folder is the root of the runtime's checkout; paths are those on the nodes.\n"
        f"{NAME} turns the comment about a bucket on where BUCKET is set."
    )
    return {
        NAME: script,
        TASK: comment(f"{settings.title}\n{note}") + commented(yaml_text(task(command, job, settings))),
    }


ENTRY = Launcher(
    name="skypilot",
    title="SkyPilot",
    cite="https://docs.skypilot.co/en/latest/reference/yaml-spec.html",
    start=f"bash {NAME}",
    files=files,
    needs=("IMAGE",),
    aliases=("sky",),
    remote=True,
)
