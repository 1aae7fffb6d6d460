"""Run a launch script with its launcher replaced by a recorder: what would start, and where."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

RECORDER = """#!/bin/bash
printf '%s\\0' "$@" > "${RECORD}/argv"
env -0 > "${RECORD}/env"
"""
STAND_INS = {
    "srun": '#!/bin/bash\nwhile [[ $# -gt 0 && "$1" != bash ]]; do shift; done\nexec "$@"\n',
    "scontrol": "#!/bin/bash\nprintf 'node0\\nnode1\\n'\n",
}
ASKED = ("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR", "CHECKPOINT", "ACCOUNT", "PARTITION", "IMAGE")
USER = dict.fromkeys(ASKED, "x")


@dataclass(frozen=True)
class Start:
    """What a script hands to torchrun, and the environment in which it does."""

    arguments: tuple[str, ...]
    environment: dict[str, str]

    @property
    def training(self) -> tuple[str, ...]:
        """Arguments after the training script."""
        at = next(index for index, part in enumerate(self.arguments) if part.endswith(".py"))
        return self.arguments[at + 1 :]


def make_recorder(folder: Path) -> Path:
    """Put stand-ins for the launchers into ``folder``."""
    for name, text in ({"torchrun": RECORDER} | STAND_INS).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def started(script: Path, recorder: Path, environment: dict[str, str] | None = None) -> Start:
    """Return what ``script`` starts; nothing is trained."""
    inside = {"SLURM_JOB_ID": "1", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "node[0-1]"}
    inside |= {"SLURM_SUBMIT_DIR": str(script.parent), "RECORD": str(recorder), "MASTER_ADDR": "node0"}
    path = f"{recorder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(script)],
        env=USER | inside | (environment or {}) | {"PATH": path},
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
    argv = (recorder / "argv").read_text().split("\0")[:-1]
    env = dict(line.partition("=")[::2] for line in (recorder / "env").read_text().split("\0") if line)
    return Start(tuple(argv), env)
