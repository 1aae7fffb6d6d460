"""Files and commands of the libraries above Hugging Face's Trainer, each read by its own reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.yaml_file import parse_yaml, read_json, read_text
from planner.runtimes.deepspeed.reading import deepspeed_chat
from planner.runtimes.imports.command_line import Training, training_of
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.unread import OPTIONS, unread
from planner.runtimes.libraries.reading import (
    automodel,
    axolotl,
    hf_trainer,
    litgpt,
    llama_factory,
    llm_foundry,
    openrlhf_sft,
    swift,
    torchtune,
    trainer,
    verl_sft,
    xtuner,
)
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch
from planner.units import is_whole

Reader = Callable[[Mapping[str, Any], Path, TrainerLaunch], Imported]

LIBRARIES: Final[Mapping[str, tuple[Callable[[Mapping[str, Any]], bool], Reader]]] = {
    "automodel": (automodel.is_one, automodel.from_tree),
    "llm-foundry": (llm_foundry.is_one, llm_foundry.from_tree),
    "llama-factory": (llama_factory.is_one, llama_factory.from_tree),
    "axolotl": (axolotl.is_one, axolotl.from_tree),
    "swift": (swift.is_one, swift.from_tree),
    "litgpt": (litgpt.is_one, litgpt.from_tree),
    "torchtune": (torchtune.is_one, torchtune.from_tree),
    "trl": (hf_trainer.is_one, hf_trainer.from_tree),
    "verl-sft": (lambda _: False, verl_sft.from_tree),
    "openrlhf-sft": (lambda _: False, openrlhf_sft.from_tree),
}
"""Whether a file is a library's, and what reads it; asked in this order. The last have commands alone."""

_YAML: Final = re.compile(r"[^-=][^=]*\.(?:ya?ml|json)")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][\w.]*)=(.*)")
RANKS: Final = ("NPROC_PER_NODE", "GPUS_PER_NODE")
NODES: Final = ("NNODES", "NUM_NODES")
PROCESSES: Final = ("--num_processes", "--num-processes")
OF_COMPOSER: Final = ("-n", "--nproc", "--world_size")
OF_MASON: Final = "--num_nodes"
"""Nodes for which AI2's launcher multiplies the processes of ``accelerate launch``
(https://github.com/allenai/open-instruct, mason.py)."""
OWN_RANKS: Final = ("--nproc-per-node", "--nproc_per_node")
OF_PROGRAM: Final = {"automodel": OWN_RANKS, "torchtune": (*OWN_RANKS, "--nnodes")}
"""Flags of a program with which it starts torchrun."""
STARTERS: Final = ("accelerate launch", "tune run")


def read_command(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what a command says; a program that is called after rewards or preferences is a fault."""
    found = _read_command(training, path)
    programs = [word for word in training.words if word == training.words[0] or word.endswith(".py")]
    rewarding = next((word for word in programs if _is_rewarding(word)), None)
    told = any(problem.found == hf_trainer.UNPRICED[0] for _, problem in found.faults)
    if rewarding is None or told:
        return found
    fault = Problem(f"{path}: {rewarding}", *hf_trainer.UNPRICED)
    return replace(found, faults=(*found.faults, ("", fault)))


def _is_rewarding(program: str) -> bool:
    return not hf_trainer.OTHERS.isdisjoint(re.split("[^a-z]+", Path(program).stem.lower()))


def _read_command(training: Training, path: Path) -> Imported:
    """Return what a command says, with the file that it names, its launcher's flags and its variables.

    Raises `InputError` if a file that it names is not there.
    """
    flags = trainer.plain(training.flags)
    launch = _launch(training, path)
    library = training.kind
    if library == "litgpt" and len(training.words) > 1 and not training.words[1].startswith("-"):
        flags = {"checkpoint_dir": training.words[1], **flags}
    recipe = _recipe(training, flags, path)
    if library == "xtuner":
        return _xtuner(training, flags, path, launch)
    if recipe is not None:
        tree = _with_flags(_tree(recipe), flags)
        known = next((name for name, (fits, _) in LIBRARIES.items() if fits(tree)), "trl")
        if library == "hf-trainer":
            _check_own(tree, known, recipe)
        reader = LIBRARIES[known if library == "hf-trainer" else library][1]
        return reader(tree | _overrides(training), recipe, launch)
    if library == "verl-sft":
        flags = _assigned(training.words[1:])
    if library != "hf-trainer":
        return LIBRARIES[library][1](flags, path, launch)
    if llama_factory.is_one(flags):
        return llama_factory.from_tree(flags, path, launch)
    if deepspeed_chat.is_one(flags):
        return deepspeed_chat.from_tree(flags, path, launch)
    name = training.words[0].rpartition("/")[2] if training.words else ""
    dialect = hf_trainer.DIALECTS.get(name, hf_trainer.TRAINER)
    return hf_trainer.from_tree(flags, path, launch, dialect)


def _check_own(tree: Mapping[str, Any], known: str, recipe: Path) -> None:
    """Refuse a file that a program of one's own is given, unless it has the Trainer's keys or a library's.

    Raises `InputError` if nothing in it says whose it is.
    """
    if known == "trl" and not hf_trainer.is_one(tree) and not OF_TRAINER & set(tree):
        other = unread(tree)
        found = f"{other[0]}, which is not read" if other else "settings of a program of one's own"
        raise InputError(Problem(str(recipe), found, other[1] if other else OPTIONS))


OF_TRAINER: Final = frozenset({"per_device_train_batch_size", "fsdp", "fsdp_config", "deepspeed"})
"""Keys of the Trainer that no other program has at the top of its file."""


def _recipe(training: Training, flags: Mapping[str, Any], path: Path) -> Path | None:
    """Return the file of arguments that a command names: the first word, or what ``--config`` says."""
    named = flags.get("config", flags.get("c"))
    if training.kind == "torchtune" and named is not None:
        named = str(named).partition(" ")[0]  # keys that it sets otherwise stand behind it
    word = next((word for word in training.words[1:2] if _YAML.fullmatch(word)), None)
    name = str(named) if named is not None and _YAML.fullmatch(str(named)) else word
    if name is None:
        return None
    file = find_beside(Path(name), path)
    if file is None:
        raise InputError(
            Problem(f"{path}: {name}", "no such file", f"a file found from the folders above {path.name}")
        )
    return file


def _tree(path: Path) -> Mapping[str, Any]:
    return read_json(path) if path.suffix.lower() == ".json" else parse_yaml(read_text(path), str(path))


STARTED: Final = ("config", "c", "launcher", "nproc_per_node", "accelerate_config")
"""Arguments of a program that are not those of its training."""


def _with_flags(tree: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file with the arguments beside it; one whose variable nobody has set changes no text."""
    unset = [key for key, value in flags.items() if value == "true" and isinstance(tree.get(key), str | list)]
    return {**tree, **{key: flags[key] for key in flags if key not in (*STARTED, *unset)}}


def _overrides(training: Training) -> dict[str, str]:
    """Return ``key=value`` words after the file, as LLaMA-Factory takes them."""
    return _assigned(training.words[2:])


def _assigned(words: tuple[str, ...]) -> dict[str, str]:
    """Return ``key=value`` words; Hydra's may begin with a plus."""
    found = [_ASSIGNED.fullmatch(word.lstrip("+")) for word in words]
    return {match[1]: match[2] for match in found if match is not None}


def _launch(training: Training, path: Path) -> TrainerLaunch:
    """Return on what a command starts, by its launcher's flags and the variables before it."""
    own = (*PROCESSES, *OF_PROGRAM.get(training.kind, ()))
    mine = {key: value.partition(" ")[0] for key, value in training.flags.items() if key in own}
    before = {**training.before, **mine}
    if training.kind == "torchtune":
        before = {
            **dict.fromkeys(training.words, ""),
            **before,
        }  # the recipe stands among its launcher's flags
    named = before.get(
        "--config_file", before.get("--config-file", training.flags.get("--accelerate_config"))
    )
    config = find_beside(Path(named), path) if named else None
    if named and config is None:
        config = find_beside(Path("trl/accelerate_configs") / f"{named}.yaml", path)
    ranks = training.ranks or _first(training, RANKS) or 1
    launched = {"accelerate", "torchrun", "deepspeed"} & set(training.before)
    spread = training.kind == "swift" and not launched and len(_devices(training)) > ranks
    missing = named if named and config is None else ""
    return TrainerLaunch(_processes(training, before), config, before, spread=spread, missing=missing)


def _processes(training: Training, before: Mapping[str, str]) -> int | None:
    """Return the accelerators of a command; None where it does not say."""
    for flag in (*PROCESSES, *(OF_COMPOSER if "composer" in before else ())):
        if is_whole(before.get(flag, "")):
            nodes = before.get(OF_MASON, "") if any(word.endswith("mason.py") for word in before) else ""
            return int(before[flag]) * (int(nodes) if is_whole(nodes) else 1)
    if training.gpus is not None:
        return training.gpus
    told = next((int(before[flag]) for flag in OWN_RANKS if is_whole(before.get(flag, ""))), None)
    ranks = training.ranks or told or _first(training, RANKS)
    count = training.nodes or _first(training, NODES) or whole_of(before.get("--nnodes"))
    several = any(flag in before for flag in ("--nnodes", "--num_nodes", "--hostfile", "--num_machines"))
    if ranks is not None:
        return ranks * count if count else None if several else ranks
    included = re.fullmatch(r"localhost:([\d,]+)", before.get("--include", ""))
    devices = included[1].split(",") if included else _devices(training)
    return len(devices) if devices and not several and count in (None, 1) else None


def whole_of(text: str | None) -> int | None:
    """Return a count above 0, None where the text is none."""
    return int(text) if text is not None and is_whole(text) and int(text) > 0 else None


def _devices(training: Training) -> list[str]:
    """Return the devices that a variable before the command leaves visible."""
    visible = training.environment.get("CUDA_VISIBLE_DEVICES", "")
    return [word for word in visible.split(",") if is_whole(word.strip())]


def _first(training: Training, names: tuple[str, ...]) -> int | None:
    found = (training.environment.get(name, "") for name in names)
    return next((int(text) for text in found if is_whole(text)), None)


def _xtuner(training: Training, flags: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Read the config that ``xtuner train`` names; one by its name alone is the library's own."""
    name = next((word for word in training.words[1:] if word.endswith(".py")), None)
    file = find_beside(Path(name), path) if name else None
    if file is None:
        found = training.words[1] if len(training.words) > 1 else "nothing"
        raise InputError(
            Problem(
                f"{path}: xtuner train", found, "a config .py that is there; `xtuner copy-cfg` writes one"
            )
        )
    return xtuner.from_text(read_text(file), file, launch, flags.get("deepspeed"))


def _started(source: Source, decided: bool) -> TrainerLaunch:
    """Return the launch of a file by itself; whether the file decides its layout says ``decided``."""
    starter = source.starter or _told(source)
    return TrainerLaunch(open=not decided) if starter is None else _launch(starter, source.path)


def _told(source: Source) -> Training | None:
    """Return the command that a comment of the file starts it with, where one names the file."""
    lines = [line.lstrip("# ").rstrip() for line in source.text.splitlines() if line.startswith("#")]
    text = "\n".join(lines)
    start = next((word for word in STARTERS if word in text), None)
    name = source.path.stem if start == "tune run" else source.path.name
    if start is None or name not in text:
        return None
    try:
        return training_of(text[text.index(start) :].partition("\n\n")[0], source.where)
    except InputError:
        return None


def _entry(title: str, name: str) -> FileFormat:
    fits, reader = LIBRARIES[name]
    return FileFormat(
        title,
        (".yaml", ".yml", ".json"),
        lambda source: fits(source.tree),
        lambda source: reader(source.tree, source.path, _started(source, name != "trl")),
    )


ENTRIES: Final = (
    _entry("a NeMo Automodel .yaml", "automodel"),
    _entry("an llm-foundry .yaml", "llm-foundry"),
    _entry("a LLaMA-Factory .yaml", "llama-factory"),
    _entry("an Axolotl .yaml", "axolotl"),
    _entry("an ms-swift .yaml", "swift"),
    _entry("a torchtune .yaml", "torchtune"),
    _entry("a LitGPT .yaml", "litgpt"),
    _entry("a TRL .yaml", "trl"),
    FileFormat(
        "an xtuner .py",
        (".py",),
        lambda source: xtuner.is_one(source.text),
        lambda source: xtuner.from_text(source.text, source.path, _started(source, False), None),
    ),
)
