"""torchrun: one start by hand on every node."""

from __future__ import annotations

from planner.launchers._islands import is_over_islands
from planner.launchers._runs import start_block, training_block, variable_block
from planner.launchers._shell import argument_lines, environment_block, head, here_block, whence
from planner.launchers.family import Launcher, LauncherSettings, node_shape
from planner.runtimes.family import Command, Job

NAME = "train.sh"

MEETING = """\
if [[ -z "${MASTER_ADDR:-}" ]]; then
  MASTER_ADDR=$(hostname)
  echo "MASTER_ADDR is unset, so this node leads; set MASTER_ADDR=${MASTER_ADDR} on the others." >&2
fi
"""


def files(command: Command, job: Job, settings: LauncherSettings) -> dict[str, str]:
    """Return the script that every node starts."""
    nodes, ranks = node_shape(job)
    where = "" if nodes == 1 else f" on each of the {nodes} nodes"
    start = f"Start it{where}, {whence(command, settings.runtime)}: bash {NAME}"
    far = is_over_islands(job)
    meeting = (
        ()
        if far
        else ("--rdzv-backend", "c10d", "--rdzv-id", settings.name)
        if nodes > 1
        else ("--standalone",)
    )
    launch = argument_lines(("--nnodes", str(nodes), "--nproc-per-node", str(ranks), *meeting))
    if far:
        launch += '  --node-rank "${NODE_RANK}"\n  --master-addr "${MASTER_ADDR}"\n'
        launch += f'  --master-port "${{MASTER_PORT:-{settings.port}}}"\n'
    elif nodes > 1:
        launch += f'  --rdzv-endpoint "${{MASTER_ADDR}}:${{MASTER_PORT:-{settings.port}}}"\n'
    if command.restarts:
        launch += '  --max-restarts "${RESTARTS}"\n'
    environment, training = environment_block(command), training_block(command)
    started = start_block(command, 'torchrun "${launch[@]}" "${training[@]}"', "${HERE}/")
    text = (
        head(settings, start)
        + "set -euo pipefail\n\n"
        + variable_block(command, settings, (), ())
        + here_block(environment, training, started)
        + "\n"
        + environment
        + (MEETING if nodes > 1 else "")
        + f"launch=(\n{launch})\n"
        + training
        + started
    )
    return {NAME: text, **(command.files or {})}


ENTRY = Launcher(
    name="torchrun",
    title="torchrun",
    cite="https://docs.pytorch.org/docs/stable/elastic/run.html",
    start=f"bash {NAME}",
    files=files,
)
