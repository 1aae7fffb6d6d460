"""Broken inputs, run one after the other: what ends in no answer and no message is a finding."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.cli.command import Done, planner
from tests.fuzz.breaking import broken, broken_words
from tests.fuzz.others import FOLLOW, JOB
from tests.fuzz.seeds import DENSE, SPARSE, Seed, make_seeds

LONGEST: Final = 10.0
"""Seconds of the processor that an input may take; longer by the clock, which other work slows. [s]"""

WAITED: Final = 300.0
"""Seconds by the clock after which an input counts as one that never ends. [s]"""

LATE: Final = f"more than {LONGEST:g} s"
"""What is said of an input that takes longer."""

MOST: Final = 500 * 2**20
"""Bytes that an input may take beside what the program holds anyway. [byte]"""

TIMERS: Final = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}

STOPPED: Final = (130, 143)
"""How a command ends that somebody stops, and the run with it."""

TOLD: Final = 1000
"""Inputs after which progress is told."""

CODES: Final = (0, 1, 2)
"""How a command may end."""

COMMANDS: Final = (
    (*DENSE, "--runtime", "megatron-lm"),
    (*SPARSE, "--runtime", "megatron-bridge", "--recompute", "selective"),
    ("search", "llama3-8b", *JOB, "--runtime", "fsdp", "--top", "1"),
    ("mfu", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--step-time", "4"),
    ("models", "show", "llama3-8b"),
    ("hardware", "show", "dgx-h100"),
    ("runtimes", "show", "megatron-lm"),
)


@dataclass(frozen=True)
class Finding:
    """An input that did not end well: its number, what was wrong, and the command."""

    number: int
    why: str
    command: tuple[str, ...]


class _Late(BaseException):
    """Time is over; no handler of errors takes it for one."""


def findings(count: int, folder: Path, first: int = 0) -> Iterator[Finding]:
    """Run ``count`` broken inputs, from number ``first`` on, and yield those that did not end well.

    A number decides its input, so that a finding can be run again: ``findings(1, folder, number)``.
    """
    seeds = make_seeds(folder / "seeds", planner)
    for number in range(first, first + count):
        place = folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        command = _command(number, seeds, place)
        with contextlib.chdir(place):
            why = judged(command)
            if why == LATE:  # on a busy machine a good question may be
                why = judged(command)
        if (number + 1 - first) % TOLD == 0:
            sys.stderr.write(f"{number + 1 - first:,} of {count:,}\n")
        if why:
            yield Finding(number, why, command)


def _command(number: int, seeds: list[Seed], place: Path) -> tuple[str, ...]:
    """Return the command of a number, its broken file written."""
    dice = Random(number)
    if dice.random() < 0.25:
        return tuple(broken_words(list(dice.choice(COMMANDS)), dice))
    seed = dice.choice(seeds)
    for beside in seed.path.parent.iterdir() if seed.path.parent.name in ("out", *_FOLDERS) else ():
        if beside.is_file():
            shutil.copy(beside, place)
    path = place / seed.path.name
    path.write_bytes(broken(seed.path.read_text(encoding="utf-8"), path.name, dice))
    return tuple(str(path) if word == FOLLOW else word for word in dice.choice(seed.commands))


_FOLDERS: Final = ("megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "fsdp", "nanotron")


def judged(command: tuple[str, ...]) -> str:
    """Run a command and say what is wrong with how it ended, or nothing."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done: Done | None = None
    wrong = ""
    earlier = {kind: signal.signal(kind, _late) for kind in TIMERS}
    for kind, timer in TIMERS.items():
        signal.setitimer(timer, LONGEST if kind == signal.SIGPROF else WAITED)
    try:
        done = planner(*command)
    except _Late:
        wrong = LATE
    except Exception as error:  # whatever leaves the program is a finding
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        for kind, timer in TIMERS.items():
            signal.setitimer(timer, 0)
            signal.signal(kind, earlier[kind])
    if wrong or done is None:
        return wrong or "nothing"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if done.code in STOPPED:
        raise SystemExit(done.code)
    if done.code not in CODES:
        return f"exit {done.code}: {done.err[-300:]}"
    if "Traceback" in done.err:
        return f"a traceback: {done.err[-300:]}"
    if done.code == 2 and not done.err.strip():
        return "exit 2 without a message"
    return f"{grown / 2**20:.0f} MiB more" if grown > MOST else ""


def _late(*_: Any) -> None:
    raise _Late
