"""Slurm: one script that submits itself, and runs torchrun once on every node."""

from __future__ import annotations

from planner.inputs.hardware import Pool
from planner.launchers._runs import spread_block, start_block, training_block, variable_block
from planner.launchers._shell import argument_lines, environment_block, head, whence
from planner.launchers.family import Launcher, LauncherSettings, node_shape
from planner.runtimes.family import Command, Job
from planner.runtimes.variables import PATHS

NAME = "train.sbatch"
NEEDS = ("OUTPUT_DIR", "ACCOUNT", "PARTITION")

OPTIONAL = ("IMAGE", "TIME_LIMIT", "QOS", "RESERVATION")
LEAD_MINUTES = 10
"""How long before its end a job saves: longer than a checkpoint of any size should take. [min]"""
GRACE_SECONDS = 240
"""What is left to save in after a signal, for a job that is pushed out or about to reach its end. [s]"""

SUBMIT = """\
if [[ -z "${SLURM_JOB_ID:-}" ]]; then
  HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  export HERE
  mkdir -p "${OUTPUT_DIR}"
  options=(--account="${ACCOUNT}" --partition="${PARTITION}" --output="${OUTPUT_DIR}/slurm-%j.out")
  if [[ -n "${TIME_LIMIT}" ]]; then options+=(--time="${TIME_LIMIT}"); fi
  if [[ -n "${QOS}" ]]; then options+=(--qos="${QOS}"); fi
  if [[ -n "${RESERVATION}" ]]; then options+=(--reservation="${RESERVATION}"); fi
CHAINED  exec sbatch "${options[@]}" "${BASH_SOURCE[0]}"
fi
HERE=${HERE:-${SLURM_SUBMIT_DIR}}

"""

CHAIN = """\
  if [[ -n "${CHAIN}" ]]; then options+=(--array="1-${CHAIN}%1" --output="${OUTPUT_DIR}/slurm-%A_%a.out"); fi
"""
"""For clusters that let no job queue again: an array whose jobs run one after the other."""

CLOCK = f"""\
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT={GRACE_SECONDS}
if [[ -z "${{MINUTES}}" && -n "${{SLURM_JOB_END_TIME:-}}" ]]; then
  export MINUTES=$(((SLURM_JOB_END_TIME - $(date +%s)) / 60 - {LEAD_MINUTES}))
  if ((MINUTES < 1)); then MINUTES=1; fi
fi
"""
"""Lets the runtime end by itself before the job does; torchrun waits for ranks that save after a signal."""

AGAIN = """\
if [[ -n "${MINUTES}" ]] && ((SECONDS >= MINUTES * 60)); then
  if [[ -n "${SLURM_ARRAY_JOB_ID:-}" ]]; then
    echo "Saved before the time limit; the next job of the chain, if one is left, goes on from there."
  else
    echo "Saved before the time limit; the job queues again and goes on from there."
    scontrol requeue "${SLURM_JOB_ID}"
  fi
elif [[ -n "${SLURM_ARRAY_JOB_ID:-}" ]]; then
  echo "The run is over; jobs that are left of the chain are cancelled."
  scancel --state=PENDING "${SLURM_ARRAY_JOB_ID}"
fi
"""

RUN = """\
mapfile -t hosts < <(scontrol show hostnames "${SLURM_JOB_NODELIST}")
launch+=(--master-addr "${hosts[0]}")
container=()
if [[ -n "${IMAGE}" ]]; then
  mounts=$(printf '%s\\n' "${PWD}" "${HERE}" PATHS | while read -r path; do
    if [[ ! -d "${path}" ]]; then path=$(dirname "${path}"); fi
    if [[ "${path}" == /?* ]]; then echo "${path}:${path}"; fi
  done | sort -u | paste -sd ,)
  container=(--container-image="${IMAGE}" --container-mounts="${mounts}" --container-workdir="${PWD}")
fi
"""


START = """\
srun --kill-on-bad-exit=1 "${container[@]}" \\
  bash -c "${node}" torchrun "${launch[@]}" "${training[@]}"\
"""

NODE = """\
# Every task adds its own place in the node list, so that ranks follow the order of the nodes.
# shellcheck disable=SC2016
node='exec torchrun --node-rank "${SLURM_NODEID}" "$@"'
"""


FAILED = """\
if ((status != 0)); then
  if ((${SLURM_RESTART_COUNT:-0} < RESTARTS)); then
    echo "The run failed; the job queues again and goes on from its last checkpoint."
    scontrol requeue "${SLURM_JOB_ID}"
  fi
  exit "${status}"
fi
"""
"""After a failure that is not the job's end: a lost node requeues the job by itself."""


def _directives(command: Command, job: Job, settings: LauncherSettings) -> str:
    nodes, ranks = node_shape(job)
    pool = job.hardware.pool
    domain = pool.scaleup_domain // pool.gpus_per_node
    lines = [
        f"--job-name={settings.name}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={ranks}",
        "--exclusive",
        "--requeue",
        "--open-mode=append",
    ]
    if _saves(command):
        lines.append(f"--signal=TERM@{GRACE_SECONDS + 60}")
    if nodes > 1:
        lines += _together(pool, nodes) if domain > 1 else ["--switches=1@00:10:00"]
    return "".join(f"#SBATCH {line}\n" for line in lines)


def _saves(command: Command) -> bool:
    """Whether the runtime saves and ends by itself, after some minutes or a signal."""
    return "MINUTES" in command.where_set


def _together(pool: Pool, nodes: int) -> list[str]:
    """Return what asks for nodes of one scale-up domain together; nothing where parts are not equal."""
    segment = pool.segment(nodes)
    return [] if nodes % segment else [f"--segment={segment}"]


def files(command: Command, job: Job, settings: LauncherSettings) -> dict[str, str]:
    """Return the batch script."""
    nodes, ranks = node_shape(job)
    saves = _saves(command)
    start = f"Start it {whence(command, settings.runtime)}: bash {NAME} (it submits itself)"
    shebang, comments = head(settings, start).split("\n", 1)
    launch = ("--nnodes", str(nodes), "--nproc-per-node", str(ranks), "--master-port", str(settings.port))
    text = (
        f"{shebang}\n{_directives(command, job, settings)}{comments}"
        + "set -euo pipefail\n\n"
        + variable_block(command, settings, NEEDS, (*OPTIONAL, "CHAIN") if saves else OPTIONAL)
        + SUBMIT.replace("CHAINED", CHAIN if saves else "")
        + environment_block(command)
        + (CLOCK if saves else "")
        + f"launch=(\n{argument_lines(launch)})\n"
        + training_block(command)
        + _container(command)
        + NODE
        + _started(command)
        + (AGAIN if saves else "")
    )
    return {NAME: text, **(command.files or {})}


def _started(command: Command) -> str:
    """Return what starts the run, and queues the job again after a failure where the command asks so."""
    text = start_block(command, START, "${HERE}/", ends=False)
    if not command.restarts:
        return text
    return f"status=0\n{text.removesuffix(chr(10))} || status=$?\n{FAILED}"


def _container(command: Command) -> str:
    """Return the lines that let a container see the folders of the user's variables."""
    names = dict.fromkeys(("OUTPUT_DIR", *(name for name in command.variables if name in PATHS)))
    words = {name: f"${{{name}}}" for name in names} | (
        {"DATA_PATH": "${data_path_words[@]}"} if "DATA_PATH" in names else {}
    )
    split = spread_block(["${DATA_PATH[@]}"] if "DATA_PATH" in names else [])
    return split + RUN.replace("PATHS", " ".join(f'"{word}"' for word in words.values()))


ENTRY = Launcher(
    name="slurm",
    title="Slurm",
    cite="https://slurm.schedmd.com/sbatch.html",
    start=f"bash {NAME}",
    files=files,
    needs=NEEDS,
    aliases=("sbatch",),
)
