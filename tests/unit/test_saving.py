"""A runtime whose files read a job's minutes tells the launchers, which then set them and queue it again."""

from __future__ import annotations

import re

from planner.launchers import Card, launch_files, launchers, target
from planner.runtimes import runtimes
from tests.cases import every
from tests.unit.runner_jobs import DENSE, job, plan

READS = re.compile(r"(?<!TIMEOUT_)\bMINUTES\b")
SHARDED = {"fsdp": 3, "torchtitan": 3}


@every("name", runtimes())
def test_a_job_that_can_save_before_its_end_does(name: str) -> None:
    task = job(DENSE, 8, seq_len=64, global_batch=16)
    wanted = target(runtimes()[name], launchers()["slurm"])
    layout = plan(task, zero=SHARDED.get(name, 1), recompute="full" if name in SHARDED else "none")
    files = launch_files(layout, task, wanted, Card())
    ours = (re.sub(r"(?m)^for name in .*$", "", text) for file, text in files.items() if file != "README.md")
    knows = any(READS.search(text) for text in ours)  # beside the line that warns of what is not known
    script = files["train.sbatch"]
    assert ("SLURM_JOB_END_TIME" in script) == knows
    assert ("scontrol requeue" in script) == knows
    assert ("--signal=TERM@" in script) == knows
