"""The launch files of a priced plan: for whom they are, and all of them written at once."""

from __future__ import annotations

import re
from pathlib import Path

from planner.cost.estimate import Estimate
from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.folders import write_folder
from planner.inputs.load import model_file
from planner.inputs.model_yaml import model_yaml
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_text
from planner.launchers import launchers
from planner.launchers.card import Card
from planner.launchers.emit import Target, launch_files, target
from planner.launchers.family import Launcher
from planner.question.launched import Launch
from planner.question.reading import OPTIONS, Door, Reading
from planner.report.estimate_page import estimate_page, first_steps
from planner.report.made_order import ordered_first_steps
from planner.report.plan_file import Names, plan_yaml
from planner.report.text import page_text
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from planner.runtimes.libraries import libraries
from planner.runtimes.libraries.family import HOSTS, Library

MODEL, CLUSTER = "model.yaml", "hardware.yaml"
"""What the folder of a plan holds of a user's own inputs."""

_PLAIN = re.compile(r"[\w./+@=,:-]+", re.ASCII)

WEIGHTS = (".safetensors", ".bin")
"""How the names of a checkpoint's files end, as transformers saves them."""


def wanted_target(launch: Launch, runtime: Runtime, door: Door = OPTIONS) -> Target:
    """Return the target that the user names.

    Raises `InputError` with every unknown name.
    """
    reading = Reading(door)
    named, starter = named_files(launch.target, launch.launcher, reading)
    if isinstance(named, Library):
        wanted = (
            reading.attempt(_library_target, named, runtime, starter, launch.version) if starter else None
        )
    else:
        files_for = named if named is not None and named.name != runtime.name else runtime
        wanted = reading.attempt(target, files_for, starter, launch.version) if starter else None
    reading.finish()
    if wanted is None:
        raise AssertionError("a fault was not told")
    return wanted


def named_files(
    target: str | None, launcher: str, reading: Reading
) -> tuple[Runtime | Library | None, Launcher | None]:
    """Return what reads the files and what starts them, by their names; None, and noted, for one unknown."""
    place = reading.door.place
    return (
        reading.named(place("target"), target, targets()),
        reading.named(place("launcher"), launcher, launchers()),
    )


def targets() -> dict[str, Runtime | Library]:
    """Return what files can be written for: runtimes, and libraries that train by one of them."""
    return {**runtimes(), **libraries()}


def _library_target(library: Library, runtime: Runtime, starter: Launcher, version: str | None) -> Target:
    """Return the target of a library by the plan's runtime, by its usual one where that is none of its own.

    Raises `InputError` if the version is not the one whose file is written.
    """
    if version not in (None, library.version):
        expected = f"{library.version} for {library.name}"
        raise InputError(Problem("--target-version", repr(version), expected, library.version))
    host = runtime if runtime.name in HOSTS else runtimes()[HOSTS[0]]
    return Target(library.on(host), starter, library.version)


def own_inputs(answer: Estimate, names: Names, out: Path) -> tuple[dict[str, str], Names]:
    """Return copies of a model and a cluster that do not ship, and the names that lead to the copies."""
    inputs = {}
    if model_file(names.model)[0].parent != data_folder("models_zoo"):
        inputs[MODEL] = model_yaml(answer.job.model)
        names = replace(names, model=str(out.resolve() / MODEL))
    hardware = Path(names.hardware).expanduser()
    if hardware.is_file():
        inputs[CLUSTER] = read_text(hardware)
        names = replace(names, hardware=str(out.resolve() / CLUSTER))
    return inputs, names


def weights_of(model: str) -> str:
    """Return the folder of a model's weights, where the user names one that holds them; empty otherwise.

    A path that a shell would not take as it is, is left out.
    """
    folder = Path(model).expanduser()
    try:
        held = any(file.suffix in WEIGHTS for file in folder.iterdir())
    except (OSError, ValueError):
        return ""
    return path if held and _PLAIN.fullmatch(path := str(folder.resolve())) else ""


def write_files(
    answer: Estimate, names: Names, wanted: Target, launch: Launch, order: str | None = None
) -> str:
    """Write the files of a priced plan, and return in words what to do with them."""
    written = ", ".join(path.name for path in write_plan(answer, names, wanted, launch, order))
    return f"wrote {launch.out}: {written}; start with: {wanted.launcher.start}"


def write_plan(
    answer: Estimate, names: Names, wanted: Target, launch: Launch, order: str | None = None
) -> list[Path]:
    """Write the files of a priced plan with copies of the user's own inputs, and return their paths."""
    weights = weights_of(names.model)
    inputs, names = own_inputs(answer, names, launch.out)
    saved = plan_yaml(answer.job, answer.runtime, answer.plan, names, order)
    summary = page_text(estimate_page(answer, {}))
    if order is None:
        expected = first_steps(answer)
    else:
        summary += (
            f"\nThese are the figures of {answer.plan.schedule}; those of the order made for it are below.\n"
        )
        expected = ordered_first_steps(answer, order)
    card = Card(saved, summary, expected)
    files = launch_files(answer.plan, answer.job, wanted, card, order, launch.smoke, launch.saving, weights)
    return write_folder({**files, **inputs}, launch.out, launch.force)
