"""The command line of a torchtitan after 0.2.2, its registry and modules of its users included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.inputs.hf_vision_parts import USUAL_PATCHES
from planner.inputs.load import load_model
from planner.inputs.vision_configs import with_encoder
from planner.runtimes.imports.command_flags import overridden
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source, beside
from planner.runtimes.imports.literals import literals, statements
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.python_fields import python_fields
from planner.runtimes.imports.schemas import check_kinds
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.torchtitan.current import LOW_BITS
from planner.runtimes.torchtitan.reading.titan_flavors import started_by
from planner.runtimes.torchtitan.reading.titan_schema import KINDS, SWITCHES
from planner.runtimes.torchtitan.reading.torchtitan import P, done, mesh, plain, rest, stages
from planner.runtimes.torchtitan.reading.torchtitan_module import module_record, with_images
from planner.runtimes.torchtitan.reading.torchtitan_sums import literal_sums
from planner.runtimes.torchtitan.registry import REGISTRY, RegistryEntry
from planner.runtimes.torchtitan.table import DEGREES
from planner.units import is_whole


def from_flags(
    flags: Mapping[str, str],
    parts: Any,
    gpus: int | None,
    where: str,
    experts: bool,
    float8: object = None,
    first: RegistryEntry | None = None,
    chunks: object = None,
) -> Imported:
    """Return what the command line of a release after 0.2.2 says.

    ``parts``: ``PARTS`` of the module that the command names: the modules of each virtual stage; ``experts``:
    whether the model has experts, which tensor parallelism splits where nothing else does; ``float8``:
    ``FLOAT8`` of the module, the recipe of its converters, or its ``LOW_BITS``; ``first``: what the registry
    says where the flags do not; ``chunks``: ``LOSS_CHUNKS`` of the module; eight where it does not say, as
    torchtitan's loss in parts.

    Raises
    ------
    InputError
        With every fault of the arguments.
    """
    mode, values = _subcommand(flags)
    sheet = Sheet(where, {**(first.flags() if first else {}), **values})
    mode = mode or (first.recompute if first else "selective")
    sheet.say("gpus", gpus)
    mesh(sheet, gpus)
    length = sheet.whole("training.max_context_length", "training.seq_len")
    tokens = sheet.whole("training.num_tokens_per_microbatch_per_dp_rank")
    whole = sheet.whole("training.num_tokens_per_train_step")
    passes = sheet.whole(f"{P}num_pp_microbatches")
    sheet.say("seq_len", length, "training.max_context_length")
    if length and tokens:
        sheet.say("micro_batch", tokens // length, "training.num_tokens_per_microbatch_per_dp_rank")
        if whole is not None and whole > 0:
            sheet.say("global_batch", whole // length, "training.num_tokens_per_train_step")
        else:
            sheet.say("accumulation", passes or 1, f"{P}num_pp_microbatches")
    stages(sheet, parts)
    said = sheet.take(f"{P}enable_sequence_parallel")
    off = sheet.has(f"{P}no_enable_sequence_parallel") or str(said).lower() == "false"
    if not off and int(sheet.options["tp"]) > 1:
        sheet.say("sequence_parallel", "true", f"{P}enable_sequence_parallel")
    rest(sheet, mode)
    if float8:
        sheet.say("precision", str(float8) if float8 in LOW_BITS else "fp8")
    elif first is not None and first.precision != "bf16":
        sheet.say("precision", first.precision)
    sheet.changes.append(f"loss_chunks={chunks or 8}")
    if experts:
        sheet.say("etp", 1 if int(sheet.options.get("ep", "1")) > 1 else sheet.options["tp"])
    return done(sheet, None)


def _subcommand(flags: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the recompute subcommand, which stands as a bare word after some flag, and the flags."""
    mode, values = None, {}
    for key, value in flags.items():
        words = value.split()
        for word in [word for word in (key, *words) if word.startswith("activation-checkpoint:")]:
            mode = word.partition(":")[2]
        kept = [word for word in words if not word.startswith("activation-checkpoint:")]
        if not key.startswith("activation-checkpoint:"):
            values[key.lstrip("-").replace("-", "_")] = " ".join(kept)
    return mode, values


def read_command(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what the command says, with the module or the entry of the registry that it names.

    A value that torchtitan does not take is a fault where a later one replaces it, too: it checks all.
    """
    found = _command(training, path)
    faults = [("", problem) for problem in _words(training, path)]
    gone = sorted({key for key in training.flags if GONE.fullmatch(key.lstrip("-").replace("-", "_"))})
    if gone and "--module" in training.flags:
        told = f"{', '.join(gone)}: of other releases; that of --module refuses such an argument"
        found = replace(found, notes=(*found.notes, told))
    for key, value in overridden(training.words):
        sheet = Sheet(str(path), {key.lstrip("-").replace("-", "_"): value})
        check_kinds(sheet, KINDS)
        literal_sums(sheet)
        faults += [("", problem) for problem in sheet.problems.values()]
    return replace(found, faults=(*found.faults, *faults)) if faults else found


GONE: Final = re.compile(
    r"(?:job|model|fault_tolerance|quantize|float8|mx|experimental|memory_estimation|validation|profiling)\..*"
    r"|optimizer\.(?:name|lr|beta1|beta2|eps|weight_decay)"
)
"""Arguments that the release with ``--module`` has no longer (torchtitan b5bcd76c, trainer.py)."""

MODES: Final = ("none", "full", "selective", "memory-budget")
"""Subcommands of ``activation-checkpoint``."""


def _words(training: Training, path: Path) -> Iterator[Problem]:
    """Yield a fault for a subcommand that is unknown or said twice, and for a module that is not named."""
    kinds = [word for word in training.words if word.startswith("activation-checkpoint:")]
    if len(kinds) > 1:
        yield Problem(f"{path}: activation-checkpoint", " ".join(kinds)[:80], "one of them", kinds[-1])
    for word in kinds:
        if word.partition(":")[2] not in MODES:
            known = ", ".join(f"activation-checkpoint:{mode}" for mode in MODES)
            yield Problem(f"{path}: activation-checkpoint", word[:60], known, "")
    for key, value in _subcommand(training.flags)[1].items():
        if SWITCHES.fullmatch(key) and value and "$" not in value:
            yield Problem(
                f"{path}: {key}", repr(value[:60]), "no value: a switch, or no_ before its name", ""
            )
    named = "--module" in training.flags or "MODULE" in training.environment
    if "--config" in training.flags and not named:
        yield Problem(f"{path}: --module", "nothing", "it, beside --config", "")


def _command(training: Training, path: Path) -> Imported:
    said = {
        key.lstrip("-"): value for key, value in training.flags.items() if key in ("--module", "--config")
    }
    module = said.get("module", training.environment.get("MODULE", "titan_plan"))
    config = said.get("config", training.environment.get("CONFIG", "train"))
    gpus = training.gpus or _number(training.environment.get("NGPU"))
    own = beside(path, f"{module}.py")
    data = literals(own)
    record = module_record(data.get("MODEL"))
    if record is not None:
        sparse = any(block.get("ffn", {}).get("kind") == "moe" for block in record["blocks"].values())
        low = data.get("LOW_BITS") or data.get("FLOAT8")
        known = (low, None, data.get("LOSS_CHUNKS"))
        found = from_flags(training.flags, data.get("PARTS"), gpus, str(path), sparse, *known)
        found = with_images(_with_function(found, own, config, path), data.get("MODEL"))
        return with_record(found, record, path, "MODEL")
    family = module.rpartition(".")[2]
    if (started := started_by(family, config)) is not None:
        small, record = started
        sparse = any(block.get("ffn", {}).get("kind") == "moe" for block in record["blocks"].values())
        found = from_flags(training.flags, None, gpus, str(path), sparse, None, small)
        return with_record(
            replace(found, lifted=("model-in-torchtitan", "flux-in-16-bit")), record, path, "MODEL"
        )
    entry = REGISTRY.get(family, {}).get(config)
    if entry is None:
        return _unknown(training, path, gpus, f"--module {module} --config {config}", own)
    return _registered(entry, training.flags, gpus, path)


def _with_function(found: Imported, module: str, config: str, path: Path) -> Imported:
    """Return what was found, with a fault where the module has no function of that name."""
    known = [node.name for node in statements(module) if isinstance(node, ast.FunctionDef)]
    if config in known:
        return found
    fault = Problem(f"{path}: --config", config[:60], "a function of the module", "")
    return replace(found, faults=(*found.faults, ("", fault)))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and is_whole(text) and len(text) < 9 else None


def _registered(entry: RegistryEntry, flags: Mapping[str, str], gpus: int | None, path: Path) -> Imported:
    """Return what an entry and the flags after it say; of a model's prediction layers there are none."""
    model = load_model(entry.model)
    found = from_flags(flags, None, gpus, str(path), bool(model.expert_kinds), entry.float8, entry)
    if not entry.images:
        return plain(replace(found, model_name=entry.model))
    seeing = with_encoder(model).model_copy(update={"tied_embeddings": False})
    taken = f"one for a sequence is taken, of {USUAL_PATCHES:,} patches"
    note = f"CC12M has an image in a sample, of any size: {taken}; --images N"
    found = replace(found, options={**found.options, "images": "1"}, notes=(*found.notes, note))
    return replace(found, model=seeing)


def _unknown(training: Training, path: Path, gpus: int | None, name: str, own: str) -> Imported:
    """Return what flags and a user's own module say, with a fault for each value that neither says."""
    config = name.rpartition(" ")[2]
    values = {**_module_flags(own, config), **training.flags}
    found = from_flags(values, None, gpus, str(path), experts=False)
    said = {key.lstrip("-").replace("-", "_") for key in values}
    faults = [
        (option, Problem(f"{path}: {key}", f"not said, and {name} is not known here", _expected(option)))
        for option, key in DECIDED.items()
        if key not in said
    ]
    return replace(found, faults=(*found.faults, *faults))


DECIDED: Final = {
    **{option: f"{P}{DEGREES[option]}" for option in ("tp", "cp", "pp", "ep")},
    "seq_len": "training.max_context_length",
    "micro_batch": "training.num_tokens_per_microbatch_per_dp_rank",
}
"""Options that a registry decides where the command line does not, and their flags."""


def _expected(option: str) -> str:
    return f"the flag, or --{option.replace('_', '-')}"


def _module_flags(text: str, config: str) -> dict[str, str]:
    """Return as flags what a function of a module says by keywords of its ``Trainer.Config``."""
    found = [node for node in statements(text) if isinstance(node, ast.FunctionDef) and node.name == config]
    fields = python_fields(ast.unparse(found[0])) if found else {}
    sections = ("parallelism", "training", "compile")
    flags = {
        f"--{key.removeprefix('Config.')}": str(value)
        for key, value in fields.items()
        if key.startswith(tuple(f"Config.{section}." for section in sections))
    }
    kind = fields.get("Config.activation_checkpoint")
    modes = {"FullAC": "full", "SelectiveAC": "selective"}
    return flags | ({f"activation-checkpoint:{modes[str(kind)]}": ""} if str(kind) in modes else {})


def fits(source: Source) -> bool:
    """Return whether a Python file is a module of torchtitan that some script beside it starts."""
    return "torchtitan" in source.text and source.starter is not None and source.starter.kind == "torchtitan"


def read(source: Source) -> Imported:
    """Return what the command that starts the module says with it."""
    assert source.starter is not None
    return read_command(source.starter, source.path.with_name("train.sh"), source.vocab)


ENTRY: Final = FileFormat("a torchtitan .py beside its script", (".py",), fits, read)
