"""Slurm: one script that submits itself, and runs torchrun once on every node."""

from __future__ import annotations

from planner.launchers._family import Launcher, Settings, node_shape
from planner.launchers._shell import argument_lines, exports, head, variable_block
from planner.plan import Plan
from planner.runtimes._family import Command, Job

NAME = "train.sbatch"

SUBMIT = """\
if [[ -z "${SLURM_JOB_ID:-}" ]]; then
  HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  export HERE
  mkdir -p "${OUTPUT_DIR}"
  exec sbatch --account="${ACCOUNT}" --partition="${PARTITION}" --output="${OUTPUT_DIR}/slurm-%j.out" \\
    "${BASH_SOURCE[0]}"
fi
export HERE=${HERE:-${SLURM_SUBMIT_DIR}}
"""

LEADER = """\
mapfile -t hosts < <(scontrol show hostnames "${SLURM_JOB_NODELIST}")
export MASTER_ADDR=${hosts[0]}
"""

CONTAINER = """\
container=()
if [[ -n "${IMAGE}" ]]; then
  mounts="${PWD}:${PWD},${HERE}:${HERE},${OUTPUT_DIR}:${OUTPUT_DIR}"
  container=(--container-image="${IMAGE}" --container-mounts="${mounts}" --container-workdir="${PWD}")
fi
"""

RUN = """\
# Every task adds its own place in the node list, so that ranks follow the order of the nodes.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=1 "${container[@]}" \\
  bash -c 'exec torchrun --node-rank "${SLURM_NODEID}" "$@"' torchrun "${launch[@]}" "${training[@]}"
"""


def _directives(job: Job, settings: Settings, nodes: int, ranks: int) -> str:
    domain = job.hardware.pool.scaleup_domain // max(1, job.hardware.pool.gpus_per_node)
    lines = [
        f"--job-name={settings.name}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={ranks}",
        "--exclusive",
        "--requeue",
        "--open-mode=append",
    ]
    if domain > 1 and nodes > 1:
        lines.append(f"--segment={min(domain, nodes)}")
    elif nodes > 1:
        lines.append("--switches=1@00:10:00")
    return "".join(f"#SBATCH {line}\n" for line in lines)


def files(command: Command, plan: Plan, job: Job, settings: Settings) -> dict[str, str]:
    """Return the batch script."""
    nodes, ranks = node_shape(job)
    needs = tuple(dict.fromkeys((*command.needs, "OUTPUT_DIR", "ACCOUNT", "PARTITION")))
    shebang, _, comments = head(
        settings, f"Start it from the root of the runtime's checkout: bash {NAME} (it submits itself)"
    ).partition("\n")
    start = ("--nnodes", str(nodes), "--nproc-per-node", str(ranks))
    text = (
        f"{shebang}\n{_directives(job, settings, nodes, ranks)}{comments}"
        + "set -euo pipefail\n\n"
        + variable_block(needs, optional=("IMAGE",))
        + SUBMIT
        + exports(command.environment)
        + CONTAINER
        + LEADER
        + "\nlaunch=(\n"
        + argument_lines(start)
        + f'  --master-addr "${{MASTER_ADDR}}" --master-port {settings.port}\n'
        + ")\ntraining=(\n"
        + argument_lines((("-m",) if command.module else ()) + command.program)
        + ")\n"
        + RUN
    )
    return {NAME: text, **(command.files or {})}


ENTRY = Launcher(
    name="slurm",
    title="Slurm",
    cite="https://slurm.schedmd.com/sbatch.html",
    start=f"bash {NAME}",
    files=files,
    needs=("OUTPUT_DIR", "ACCOUNT", "PARTITION"),
)
