"""torchrun: one start by hand on every node."""

from __future__ import annotations

from planner.launchers._family import Launcher, Settings, node_shape
from planner.launchers._shell import argument_lines, exports, head, variable_block
from planner.plan import Plan
from planner.runtimes._family import Command, Job

NAME = "train.sh"

MEETING = """\
if [[ -z "${MASTER_ADDR:-}" ]]; then
  MASTER_ADDR=$(hostname)
  echo "MASTER_ADDR is unset, so this node leads; set MASTER_ADDR=${MASTER_ADDR} on the others." >&2
fi
"""


def files(command: Command, plan: Plan, job: Job, settings: Settings) -> dict[str, str]:
    """Return the script that every node starts."""
    nodes, ranks = node_shape(job)
    where = "on the one node" if nodes == 1 else f"on each of the {nodes} nodes"
    start = [
        *("--nnodes", str(nodes), "--nproc-per-node", str(ranks)),
        *(("--rdzv-backend", "c10d", "--rdzv-id", settings.name) if nodes > 1 else ("--standalone",)),
    ]
    endpoint = (
        f'  --rdzv-endpoint "${{MASTER_ADDR}}:${{MASTER_PORT:-{settings.port}}}"\n' if nodes > 1 else ""
    )
    text = (
        head(settings, f"Start it {where}, from the root of the runtime's checkout: bash {NAME}")
        + "set -euo pipefail\n\n"
        + variable_block(command.needs)
        + 'HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\nexport HERE\n'
        + exports(command.environment)
        + (MEETING if nodes > 1 else "")
        + "\nlaunch=(\n"
        + argument_lines(start)
        + endpoint
        + ")\ntraining=(\n"
        + argument_lines((("-m",) if command.module else ()) + command.program)
        + ')\nexec torchrun "${launch[@]}" "${training[@]}"\n'
    )
    return {NAME: text, **(command.files or {})}


ENTRY = Launcher(
    name="torchrun",
    title="torchrun",
    cite="https://docs.pytorch.org/docs/stable/elastic/run.html",
    start=f"bash {NAME}",
    files=files,
)
