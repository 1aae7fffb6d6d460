"""Write the files of random plans, and ask a runner's own code about them in one process of its own."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.runtimes.family import Command, Job, Runtime
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.variables import VARIABLES
from tests.helpers import ROOT
from tests.validate.megatron.plans import settings
from tests.validate.random_plans import Case, cases

PYTHON = Path(os.environ.get("VALIDATE_PYTHON", ROOT / ".venv-validate/bin/python"))
"""The interpreter that has the runners; `make validate` makes it."""

COUNT = int(os.environ.get("VALIDATE_PLANS", "20"))
SEED = int(os.environ.get("VALIDATE_SEED", "1"))


class Verdict(NamedTuple):
    """A plan, what we write for it, and the runner's answer: ``derived`` or ``refused``."""

    case: Case
    command: Command
    answer: Mapping[str, Any]


@functools.cache
def has(module: str) -> bool:
    """Return whether the runners' interpreter can import ``module``."""
    if not PYTHON.exists():
        return False
    return (
        subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    )


def written(runtime: Runtime, legal: bool, folder: Path) -> Iterator[tuple[Case, Command, Path]]:
    """Yield random cases with their files, legal ones with one changed trait after the other.

    An illegal plan that cannot be written at all is left out.
    """
    changes = settings(runtime) if legal else itertools.repeat(NO_CHANGES)
    for index, (case, asked) in enumerate(zip(cases(runtime, SEED, COUNT, legal), changes, strict=False)):
        try:
            command = _command(runtime, case, asked)
        except (ArithmeticError, KeyError, ValueError, UnsupportedPlan):
            if legal:
                raise
            continue
        place = folder / str(index)
        place.mkdir()
        for name, text in (command.files or {}).items():
            (place / name).write_text(text, encoding="utf-8")
        yield case, command, place


def _command(runtime: Runtime, case: Case, changes: Changes) -> Command:
    """Return what starts a case, without the changed trait where the plan refuses it."""
    assert runtime.command is not None
    try:
        return runtime.command(case.plan, case.job, runtime.versions[0], changes)
    except UnsupportedPlan:
        return runtime.command(case.plan, case.job, runtime.versions[0])


def judged(
    runtime: Runtime, check: str, legal: bool, folder: Path, more: Mapping[str, Any] = NO_CHANGES
) -> list[Verdict]:
    """Return the verdicts of ``check`` on random plans that our rules accept, or that they refuse.

    ``more`` is added to every question.
    """
    return asked(list(written(runtime, legal, folder)), check, more)


def asked(
    pairs: list[tuple[Case, Command, Path]], check: str, more: Mapping[str, Any] = NO_CHANGES
) -> list[Verdict]:
    """Return the verdicts of ``check`` on plans whose files are written."""
    lines = [{**question(case.job, case.plan, command, place), **more} for case, command, place in pairs]
    found = answers(lines, check)
    return [Verdict(case, command, answer) for (case, command, _), answer in zip(pairs, found, strict=True)]


def answers(questions: Sequence[Mapping[str, Any]], check: str) -> list[dict[str, Any]]:
    """Return what the script ``check`` answers to each question, in a process of its own."""
    run = subprocess.run(
        [PYTHON, ROOT / "tests/validate" / check],
        input="".join(f"{json.dumps(one)}\n" for one in questions),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == len(questions), run.stderr[-2000:]
    return found


def question(job: Job, plan: Plan, command: Command, place: Path) -> dict[str, Any]:
    """Return what a script that judges is told of a plan whose files lie in ``place``."""
    degrees = {name: int(getattr(plan, name)) for name in ("tp", "pp", "cp", "ep")}
    arguments = [part for part in spoken(command, command.real) if not part.endswith(".py")]
    node = job.hardware.pool.gpus_per_node
    place_and_size = {
        "folder": str(place), "gpus": job.gpus, "node": node, "environment": dict(command.environment),
    }  # fmt: skip
    short = () if command.smoke is None else (*command.program, *command.smoke, *command.closing)
    smoke = spoken(command, short)
    return {**place_and_size, "arguments": arguments, "smoke": smoke, **degrees}


def spoken(command: Command, parts: Iterable[str]) -> list[str]:
    """Return arguments with the user's variables as they are where the user sets none, or their names."""
    values = {name: name.lower() for name in VARIABLES} | dict(command.defaults)

    def filled(part: str) -> str:
        return re.sub(r"\$\{(\w+)(\[@\])?\}", lambda found: filled(values[found[1]]), part)

    return [filled(part) for part in parts]


def refusals(verdicts: list[Verdict]) -> list[str]:
    """Return what the runner refused, with the plan."""
    return [f"{v.answer['refused']}: {v.case.plan}" for v in verdicts if "refused" in v.answer]


def ours_alone(verdicts: list[Verdict]) -> set[str]:
    """Return the rules that are the only ones broken by a plan whose files the runner took."""
    taken = [verdict.case.broken for verdict in verdicts if "derived" in verdict.answer]
    return {broken[0].rule for broken in taken if len({violation.rule for violation in broken}) == 1}


def counted(verdicts: list[Verdict]) -> str:
    """Return how many plans that our rules refuse the runner refused too, and how many it took."""
    refused = sum("refused" in verdict.answer for verdict in verdicts)
    return f"\n{len(verdicts)} illegal plans: {refused} refused, {len(verdicts) - refused} taken"
