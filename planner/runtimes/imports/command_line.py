"""The training command of a shell script: its program, its flags, and on how many accelerators it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from planner.dataclasses import dataclass, field, replace
from planner.errors import InputError, Problem
from planner.inputs.yaml_file import read_text
from planner.runtimes.imports import shell_known
from planner.runtimes.imports.command_flags import flag_values
from planner.runtimes.imports.launch_counts import MPI, NODES, RANKS, by_mpi, first_count, ranks_of_node
from planner.runtimes.imports.shell import read_script
from planner.runtimes.imports.shell_script import ShellScript, started_scripts
from planner.runtimes.imports.unread import check_language, check_program, trains_nothing
from planner.runtimes.libraries.reading import trainer_programs
from planner.runtimes.megatron_bridge.reading import bridge_programs
from planner.units import is_whole

_MEGATRON: Final = re.compile(
    r"(?:.*/)?(?:pretrain|posttrain|finetune|train)_(?!bert|t5|vision|vlm|ict)\w+\.py"
)
_OF_MEGATRON: Final = re.compile(
    r"--(?:(?:tensor|pipeline|context|expert)[-_]model[-_]parallel[-_]size|num[-_]layers|hidden[-_]size|seq[-_]length"
    r"|micro[-_]batch[-_]size|global[-_]batch[-_]size|train[-_](?:iters|samples|tokens)|use[-_]mcore[-_]models"
    r"|use[-_]distributed[-_]optimizer|yaml[-_]cfg|lr[-_]decay[-_]style|data[-_]path|tokenizer[-_]type|no[-_](?:load|save)[-_](?:optim|rng))"
)
"""Arguments of which Megatron-LM's programs have some."""
_ITS_OWN: Final = ("pretrain_gpt.py", "pretrain_mamba.py", "pretrain_hybrid.py")
_TITAN: Final = re.compile(r"torchtitan\.(?:train|experiments\.[\w.]+\.train)|(?:.*/)?torchtitan/train\.py")
_TITAN_SCRIPT: Final = re.compile(r"(?:.*/)?run_train\.sh")
_TORCHRUN: Final = re.compile(r"(?:.*/)?torchrun|torch\.distributed\.(?:run|launch)")
_TITAN_2024: Final = re.compile(r"(?:.*/)?train\.py")
_TITAN_JOB: Final = ("--job.config_file", "--job.config-file")
_SHAPE: Final = ("--num-layers", "--hidden-size", "--num-attention-heads")
_MEGATRON_FILE: Final = "--yaml-cfg"
_DEEPSPEED: Final = ("--deepspeed_config", "--deepspeed-config", "--deepspeed")
_MAY_TRAIN: Final = re.compile(
    r"\.py|torchtitan|llamafactory-cli|axolotl|(?:trl|swift|megatron|xtuner) (?:sft|pt|train)"
)
_INNER: Final = re.compile(r"-[a-z]{0,4}c")
"""Options of a shell before the commands that it runs: ``bash -c``, ``bash -lc``."""
_PRINTS: Final = ("echo", "printf")
"""Commands that start nothing of what stands behind them."""


Words = tuple[str, ...]
Flags = Mapping[str, str]


@dataclass(frozen=True)
class CommandProgram:
    """A program that trains, as it stands in a command."""

    place: Callable[[Words], int | None]
    """Where it stands among the words of a command, or None; the words after it are its arguments."""
    kind: Callable[[Words, int, Flags, Flags], tuple[str, str | None]]
    """The ``Training.kind`` and the configuration file that it names, or None, from (words, place, flags of
    the launcher before it, its own flags)."""


@dataclass(frozen=True)
class Training:
    """What a script trains with."""

    kind: str
    """``megatron-lm``, ``torchtitan``, ``deepspeed`` or ``fsdp``."""
    flags: Mapping[str, str]
    """Flag of the program to its values joined by blanks; empty for a switch."""
    nodes: int | None
    ranks: int | None
    """Nodes, and accelerators of each, where the script says."""
    config: str | None
    """The configuration file that the command names."""
    doubts: tuple[str, ...]
    """Variables of the command that have several values, under conditions."""
    before: Mapping[str, str] = field(default_factory=dict)
    """Flags of the launcher to their values."""
    words: tuple[str, ...] = ()
    """The program and all after it, as they stand."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the script sets, each to its first value."""
    commands: int = 1
    """How many commands of the script train; the last is this one."""
    connections: str | None = None
    """``CUDA_DEVICE_MAX_CONNECTIONS``, where the script sets it, and to one value."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Text of each file that the script writes before it starts."""
    bare: tuple[str, ...] = ()
    """Flags of the launcher that stand without a value."""
    through: tuple[str, ...] = ()
    """Scripts that the one that is read starts, by which it trains."""
    cut: str = ""
    """The option with which the command behind this one begins: the line before it lacks its backslash."""

    @property
    def gpus(self) -> int | None:
        """Accelerators in all."""
        return self.nodes * self.ranks if self.nodes and self.ranks else None


DOUBT: Final = "changed under conditions; the first value counts, with what extends it"
"""What is told of variables that have several values."""
MOST_THROUGH: Final = 3
"""How many scripts may start one another."""


def training_of(text: str, where: str) -> Training:
    """Return what a script trains with, or another script near it that it starts.

    Raises `InputError` if no command of it is known, or it cannot be read.
    """
    shell_known.check_ends(text, where)
    script = read_script(text, where)
    return _trained_by(script, where) or _refused(script, where)


def _trained_by(script: ShellScript, where: str, depth: int = 0) -> Training | None:
    """Return what a script trains with: by a known program, by a script that it starts, by any program."""
    return (
        _by(PROGRAMS, script, where)
        or _through(script, where, depth)
        or _by((PLAIN,), script, where)
        or _by((ARGUMENTS,), script, where)
    )


def _by(programs: tuple[CommandProgram, ...], script: ShellScript, where: str) -> Training | None:
    """Return the last command of a script that starts one of some programs."""
    if PLAIN in programs:
        _check_language(script, where)
    for words, doubts in _candidates(script, where) if ARGUMENTS not in programs else _arrays(script):
        for program in programs:
            place = program.place(words)
            if place is not None and not trains_nothing(words[place]):
                check_program(words, where)
                check_language(words[place], where)
                found = _training(words, place, program, script.directives, doubts)
                places = ((command, program.place(command)) for command in script.commands)
                several = sum(at is not None and not trains_nothing(one[at]) for one, at in places)
                first = {name: values[0] for name, values in script.variables.items() if values}
                found = replace(found, environment=first, commands=max(1, several))
                found = replace(found, written=script.written, cut=script.cut_off(words))
                found = _of_run_train(found)
                told = {*script.variables.get("CUDA_DEVICE_MAX_CONNECTIONS", ())}
                return replace(found, connections=told.pop()) if len(told) == 1 else found
    return None


def _through(script: ShellScript, where: str, depth: int) -> Training | None:
    """Return what a script trains with that this one starts, with its variables, options and arguments."""
    for one in started_scripts(script, where) if depth < MOST_THROUGH else ():
        given = {**script.variables, **{name: [value] for name, value in one.variables.items()}}
        outer = replace(script, variables=given)
        try:
            inner = read_script(read_text(one.file), str(one.file), outer, one.directives)
            found = _trained_by(inner, str(one.file), depth + 1)
        except InputError:
            continue
        if found is not None:
            doubts = tuple(dict.fromkeys((*script.loops, *found.doubts)))
            return replace(found, through=(str(one.file), *found.through), doubts=doubts)
    return None


def _refused(script: ShellScript, where: str) -> Training:
    """Refuse a script that trains with nothing that is known.

    Raises `InputError` always.
    """
    expected = (
        "a command with pretrain_gpt.py, torchtitan.train, --deepspeed_config, accelerate launch, "
        "--model_name_or_path and --per_device_train_batch_size, or of llamafactory-cli, axolotl, trl, "
        "swift, xtuner, tune or litgpt"
    )
    for words, _ in _candidates(script, where):
        check_program(words, where)
    hidden = _unset_program(script)
    if hidden:
        expected = "the program's own file after --from: what it trains stands there"
        raise InputError(Problem(where, f"the program {hidden}, which the script does not set", expected))
    raise InputError(Problem(where, "no training command", expected))


def _of_run_train(found: Training) -> Training:
    """Return a command of torchtitan's ``run_train.sh`` with the job config and ranks that it is told.

    Up to 0.2.2 both come from the environment, ``CONFIG_FILE`` and ``NGPU``.
    """
    named = found.environment.get("CONFIG_FILE")
    if found.kind != "torchtitan" or found.config or not named or "--module" in found.flags:
        return found
    ranks = found.environment.get("NGPU", "")
    found = replace(found, config=named)
    alone = found.gpus is None and is_whole(ranks)
    return replace(found, nodes=found.nodes or 1, ranks=int(ranks)) if alone else found


def _unset_program(script: ShellScript) -> str:
    """Return the variable that a script starts as its program, where it gives it no value."""
    for command in script.commands:
        if any(re.fullmatch(r"(?:.*/)?(?:python[\d.]*|torchrun)", word) for word in command):
            unset = [word for word in command if re.fullmatch(r"\$\{?[A-Z_]*SCRIPT\}?", word)]
            if unset:
                return unset[0]
    return ""


def _check_language(script: ShellScript, where: str) -> None:
    """Refuse Megatron-LM's programs for other than language models, whose arguments may stand in arrays."""
    for words, _ in _candidates(script, where):
        for word in words:
            check_language(word, where)


def _candidates(script: ShellScript, where: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield commands with what is in doubt, the last first; then those in a word, and in a variable."""
    for words, doubts in zip(reversed(script.commands), reversed(script.doubts), strict=True):
        if words[0] in _PRINTS:
            continue
        yield words, doubts
        for place, word in enumerate(words):
            inner = place > 0 and bool(_INNER.fullmatch(words[place - 1]))
            if " " in word.strip() and (inner or _MAY_TRAIN.search(word)):
                within = read_script(word, where, script if inner else None)
                if inner:  # what it sets for its commands counts as what the script sets
                    script.variables.update(within.variables)
                for command in within.commands:
                    yield (*words[:place], *command), doubts
    for text in script.texts:
        if _MAY_TRAIN.search(text):
            yield from ((words, ()) for words in read_script(text, where).commands)


def _arrays(script: ShellScript) -> Iterator[tuple[Words, Words]]:
    """Yield the values of variables that another script is to start, the longest first."""
    yield from (((name, *value), ()) for name, value in sorted(script.variables.items(), key=_length))
    texts = ((name, *" ".join(value).split()) for name, value in script.variables.items())
    yield from ((words, ()) for words in texts if "--train-iters" in words or "--train-samples" in words)


def _length(pair: tuple[str, Sequence[str]]) -> int:
    return -len(pair[1])


def _of_megatron_or_titan(words: Words) -> int | None:
    known = (n for n, word in enumerate(words) if _MEGATRON.fullmatch(word) or _TITAN.fullmatch(word))
    return next((n for n in known if _TITAN.fullmatch(words[n]) or _megatrons(words, n)), None)


def _megatrons(words: Words, place: int) -> bool:
    """Whether a program is Megatron-LM's: others have names like its own, and not its arguments."""
    own = [word.partition("=")[0] for word in words[place + 1 :] if word.startswith("--")]
    name = words[place].rpartition("/")[2]
    open_ended = name.startswith("pretrain_") or any("$" in word for word in words[place + 1 :])
    known = any(_OF_MEGATRON.fullmatch(word) for word in own)
    return name in _ITS_OWN or known or (not own and open_ended)


def _of_deepspeed_or_accelerate(words: Words) -> int | None:
    known = any(flag in words or any(w.startswith(f"{flag}=") for w in words) for flag in _DEEPSPEED)
    if known or words[:2] == ("accelerate", "launch"):
        return next((place for place, word in enumerate(words) if word.endswith(".py")), None)
    return None


def _training(
    words: Words, place: int, program: CommandProgram, directives: Mapping[str, str], doubts: tuple[str, ...]
) -> Training:
    before, flags = flag_values(words[:place]), flag_values(words[place + 1 :])
    kind, config = program.kind(words, place, before, flags)
    nodes = first_count(NODES, before, directives)
    ranks = first_count(RANKS, before) or ranks_of_node(directives)
    if not {word for key, value in before.items() for word in (key, *value.split())}.isdisjoint(MPI):
        nodes, ranks = by_mpi(before)
    if (local := first_count(("--local_worker_num",), before)) and (
        total := first_count(("--worker_num",), before)
    ):
        nodes, ranks = total // local, local  # MindSpore's msrun
    if kind == "fsdp" and (total := first_count(("--num_processes",), before, {})) is not None:
        nodes, ranks = 1, total
    if nodes is None and ranks is not None and _starts_one_node(words, before, directives):
        nodes = 1
    pairs = zip(words[:place], (*words[1:place], "--"), strict=False)
    bare = tuple(word for word, after in pairs if word in before and after.startswith("--"))
    return Training(kind, flags, nodes, ranks, config, doubts, before, words[place:], bare=bare)


def _starts_one_node(words: Words, before: Flags, directives: Mapping[str, str]) -> bool:
    """Whether torchrun starts one node: it is told so, or nothing names another number (its ``1:1``)."""
    elsewhere = bool(directives) or "srun" in words[:3] or any(flag in before for flag in NODES)
    torchrun = any(_TORCHRUN.fullmatch(word) for word in words[:3])
    return "--standalone" in before or (torchrun and not elsewhere)


def starts_alone(training: Training) -> bool:
    """Whether torchrun is told no processes a node, of which it then starts one; variables may tell it."""
    said = _before(training)
    told = {*RANKS[:2]} & said or "PET_NPROC_PER_NODE" in training.environment
    return not told and starts_by_torchrun(training) and not any("$" in word for word in said)


def starts_by_torchrun(training: Training) -> bool:
    """Whether torchrun starts the program."""
    return any(map(_TORCHRUN.fullmatch, _before(training)))


def _before(training: Training) -> set[str]:
    return {word for pair in training.before.items() for part in pair for word in part.split()}


def _kind(
    words: Words, place: int, before: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, str | None]:
    if _TITAN.fullmatch(words[place]):
        return _titan_script(words, place, before, flags)
    if words[:2] == ("accelerate", "launch"):
        return "fsdp", before.get("--config_file", before.get("--config-file"))
    if _MEGATRON.fullmatch(words[place]) and flags.get(_MEGATRON_FILE):
        return "python", flags[_MEGATRON_FILE]
    named = next((flags[flag] for flag in _DEEPSPEED if flags.get(flag, "").endswith(".json")), None)
    megatron = _MEGATRON.fullmatch(words[place]) and (named is None or "--num-layers" in flags)
    return ("megatron-lm" if megatron else "deepspeed", named)


def _of_python(words: Words) -> int | None:
    launchers = {"torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed"}
    started = not launchers.isdisjoint(words)
    return next((n for n, word in enumerate(words) if word.endswith(".py")), None) if started else None


def _python_file(words: Words, place: int, before: Flags, flags: Flags) -> tuple[str, str | None]:
    return "python", words[place].rpartition("}/")[2]


PLAIN: Final = CommandProgram(_of_python, _python_file)
"""Any other Python file under a launcher: read where it is a configuration itself; asked last of all."""


def _of_arguments(words: Words) -> int | None:
    return 0 if set(_SHAPE) <= set(words) else None


def _arguments(words: Words, place: int, before: Flags, flags: Flags) -> tuple[str, str | None]:
    return "megatron-lm", None


ARGUMENTS: Final = CommandProgram(_of_arguments, _arguments)
"""Megatron-LM's arguments in an array, for a script elsewhere to start; where no command trains."""


def _of_nanotron(words: Words) -> int | None:
    named = "--config-file" in words
    names = ("run_train.py", "start.py") if named else ("start.py",)
    return next((n for n, word in enumerate(words) if word.rpartition("/")[2] in names), None)


def _nanotron_file(words: Words, place: int, before: Flags, flags: Flags) -> tuple[str, str | None]:
    return "nanotron", flags.get("--config-file", "nanotron.yaml")


def _of_titan_script(words: Words) -> int | None:
    job = next((n for n, word in enumerate(words) if word.partition("=")[0] in _TITAN_JOB), 0)
    names = (_TITAN_SCRIPT, _TITAN_2024) if job else (_TITAN_SCRIPT,)
    found = (n for n, word in enumerate(words) if any(name.fullmatch(word) for name in names))
    return next(found, max(0, job - 1) or None)  # a program of one's own stands before the file


def _titan_script(words: Words, place: int, before: Flags, flags: Flags) -> tuple[str, str | None]:
    return "torchtitan", next((flags[name] for name in _TITAN_JOB if name in flags), None)


PROGRAMS: Final = (
    CommandProgram(bridge_programs.place, bridge_programs.kind),
    CommandProgram(trainer_programs.place, trainer_programs.kind),
    CommandProgram(_of_megatron_or_titan, _kind),
    CommandProgram(_of_deepspeed_or_accelerate, _kind),
    CommandProgram(_of_nanotron, _nanotron_file),
    CommandProgram(_of_titan_script, _titan_script),
)
"""Programs in the order in which a command is asked for them."""
