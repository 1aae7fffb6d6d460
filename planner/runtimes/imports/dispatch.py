"""Whose file it is, and what it says, the files beside it included."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.bounded import is_file, with_written
from planner.inputs.yaml_file import parse_repeating, read_json, read_text
from planner.runtimes.imports.command_line import (
    DOUBT,
    Training,
    starts_alone,
    starts_by_torchrun,
    training_of,
)
from planner.runtimes.imports.file_format import Source, beside
from planner.runtimes.imports.formats import COMMANDS, FORMATS, KINDS, suffixes
from planner.runtimes.imports.hydra import composed
from planner.runtimes.imports.launch_counts import NODES, RANKS
from planner.runtimes.imports.model import started
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.script_arguments import unread_arguments
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.unread import OPTIONS, unread
from planner.units import is_whole

SCRIPTS: Final = ("train.sh", "train.sbatch")
"""Scripts beside a configuration file that may start it."""

WHOLE: Final = "the whole configuration, as Hydra prints it: python PROGRAM --cfg job --resolve"
MANY: Final = 4
"""Kinds of files that a message does not name again: what is expected does."""

OWN_CODE: Final = "a program whose settings stand in its own code"

ALONE: Final = "torchrun without --nproc-per-node starts one process a node, and is priced on more"

VALUED: Final = frozenset(
    f"--{name}"
    for name in (
        "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
        "monitor-interval", "start-method", "role", "log-dir", "redirects", "tee", "local-addr", "node-rank",
        "master-addr", "master-port",
    )
)  # fmt: skip
"""Options of torchrun that take a value (torch/distributed/run.py, ``get_args_parser``)."""

_SET: Final = re.compile(r":[ \t]+!!set\b")
"""Sets of YAML, as Megatron-Bridge saves them: read as keys without values."""

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[A-Za-z]+")


def read_runner_file(path: Path, vocab: int | None = None) -> Imported:
    """Return what a runner's file says, its faults among it.

    ``vocab``: tokens of the vocabulary, where the file gives a model's shape without it.

    Raises `InputError` if it is none of the files that can be read.
    """
    suffix = path.suffix.lower()
    if suffix in suffixes():
        return _from_config(path, _starter(path), vocab)
    if suffix in (".csv", ".md", ".html", ".py", ".json", ".toml", ".yaml", ".yml"):
        raise InputError(Problem(str(path), f"a {suffix} file", KINDS))
    if read_text(path).lstrip().startswith("{"):  # as DeepSpeed's files are also called: .conf, .config
        return _from_config(path, _starter(path), vocab, ".json")
    return _from_script(path, vocab)


def _from_script(path: Path, vocab: int | None) -> Imported:
    """Read a script, and the configuration that it names; a count of its launcher is 1 or more."""
    training = training_of(read_text(path), str(path))
    counts = {flag: training.before.get(flag, "") for flag in (*NODES, *RANKS)}
    wrong = tuple(
        ("gpus", Problem(f"{path}: {flag}", count, "a whole number, 1 or more"))
        for flag, count in counts.items()
        if (_NUMBER.fullmatch(count) and not (is_whole(count) and int(count)))
        or (flag in NODES and _WORD.fullmatch(count))
    )
    wrong += tuple(
        ("", Problem(f"{path}: {flag}", "nothing", "a value: the launcher takes the next word for it"))
        for flag in training.bare
        if flag.replace("_", "-") in VALUED and starts_by_torchrun(training)
    )
    if training.cut:
        lacking = f"a backslash at the end of the line before {training.cut}, which is no part of the command"
        wrong += (("", Problem(f"{path}: {training.cut}", "a line of its own", lacking)),)
    written = {Path(name).name: text for name, text in training.written.items()}
    with with_written({path.with_name(name): text for name, text in written.items() if name}):
        found = _started(training, path, vocab)
    told: tuple[str, ...] = (
        (f"{training.commands} commands train: the last is read",) if training.commands > 1 else ()
    )
    unsure = training.doubts and not any(DOUBT in note for note in found.notes)
    told += (f"{', '.join(training.doubts)}: {DOUBT}",) if unsure else ()
    told += (ALONE,) if starts_alone(training) else ()
    told += tuple(f"read {Path(name).name}, which it starts" for name in training.through)
    return replace(found, faults=(*found.faults, *wrong), notes=(*found.notes, *told))


def _started(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what a command says, with the configuration that it names."""
    named = Path(training.config or "")
    if named.name and training.kind != "megatron-lm":
        config = find_beside(named, path) or path.with_name(named.name)
        if training.kind == "python" and not is_file(config):
            found = f"{training.config}, whose own settings are not known"
            raise InputError(Problem(str(path), found, f"a file that is read in its place, or {OPTIONS}"))
        if not is_file(config):
            return _without_file(training, path)
        return _from_config(config, training, vocab)
    reader = COMMANDS.get(training.kind)
    if reader is None:
        raise InputError(Problem(str(path), "a command without its configuration file", KINDS))
    return reader(training, path, vocab)


def _without_file(training: Training, path: Path) -> Imported:
    """Return what a command of DeepSpeed says without its JSON: the ZeRO stage and the batch stand for it.

    Raises `InputError` for another runner, whose file says all of the plan.
    """
    key, told = f"{path}: {training.config}", f"a file found from the folders above {path.name}"
    if training.kind != "deepspeed":
        own = f"{told}; or no --from: MODEL and the options of a plan"
        raise InputError(Problem(key, "no such file", own))
    asked = {"zero": "--zero N", "micro_batch": "--micro-batch N and --global-batch N"}
    faults = tuple(
        (option, Problem(key, "no such file", f"{told}; or {words}")) for option, words in asked.items()
    )
    note = f"{training.config} is not there: precision, offload and optimizer are as the options say"
    notes = (note, *unread_arguments(training.flags))
    return started(Imported("deepspeed", {}, {}, notes=notes, faults=faults), training)


def _from_config(path: Path, starter: Training | None, vocab: int | None, suffix: str = "") -> Imported:
    """Read a configuration by the first format of the table that it fits; ``suffix``: instead of its own."""
    text = read_text(path)
    suffix = suffix or path.suffix.lower()
    tree, repeated = _tree(path, text, suffix)
    parts = suffix in (".yaml", ".yml") and "experiment" not in tree  # whose reader follows FlagScale's own
    tree, missing = composed(tree, path) if parts else (tree, ())
    lacking = f"defaults: no {', '.join(missing)}.yaml near it, whose keys are not read" if missing else ""
    source = Source(path, text, tree, starter, vocab)
    known = [entry for entry in FORMATS if suffix in entry.suffixes]
    for entry in known:
        if entry.fits(source):
            found = entry.read(source)
            notes = (f"{', '.join(repeated)} twice: the last counts",) if repeated else ()
            return replace(found, notes=(*notes, *filter(None, (lacking,)), *found.notes))
    other = unread(tree)
    if other is not None:
        raise InputError(Problem(str(path), f"{other[0]}, which is not read", other[1]))
    if missing:
        raise InputError(Problem(str(path), lacking, WHOLE))
    if suffix == ".py":
        raise InputError(Problem(str(path), OWN_CODE, f"a file that is read in its place, or {OPTIONS}"))
    expected = f"{KINDS}; a model's config.json is MODEL" if suffix == ".json" else KINDS
    if len(known) >= MANY and suffix != ".json":
        expected = f"a file of a tool that is read, or {OPTIONS}"
    names = " or ".join(entry.title for entry in known) if len(known) < MANY else f"any {suffix} that is read"
    raise InputError(Problem(str(path), f"no key of {names or 'none of these'}", expected))


def _tree(path: Path, text: str, suffix: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a file's nested tables, and the keys that it repeats where its runner takes the last."""
    if suffix == ".json":
        return read_json(path), ()
    if suffix in (".yaml", ".yml"):
        return parse_repeating(_SET.sub(":", text), str(path))
    try:
        return tomllib.loads(text) if suffix == ".toml" else {}, ()
    except tomllib.TOMLDecodeError as error:
        raise InputError(Problem(str(path), f"no TOML ({error})", "a torchtitan job config")) from None


def _starter(path: Path) -> Training | None:
    """Return what a script beside a configuration file trains with, where it names that file.

    A script of the file's own name is taken too; one that cannot be read starts nothing.
    """
    for name in (*SCRIPTS, path.with_suffix(".sh").name):
        text = beside(path, name)
        try:
            if _names(text, path) or (name not in SCRIPTS and path.name in text):
                return training_of(text, str(path.with_name(name)))
        except InputError:
            continue
    return None


def _names(text: str, path: Path) -> bool:
    """Return whether a script starts a configuration, by its name or through the script written beside it."""
    named = path.name in text or f"--module {path.stem}" in text
    return named or (path.name == "nanotron.yaml" and "start.py" in text)
