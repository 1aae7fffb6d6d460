"""``planner estimate --from FILE``: the options that a runner's own file stands for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from planner.cli import complete, from_file_cluster, from_file_start
from planner.cli.options import JobOptions, PlanOptions, text_option
from planner.dataclasses import dataclass, fields, replace
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.files import write_whole
from planner.question.reading import Reading, written_spans
from planner.units import is_whole

with deferred():
    from planner.cost import estimate as cost_estimate
    from planner.inputs import load_hardware, model_yaml
    from planner.question import meant

if TYPE_CHECKING:
    from planner.cost.price import Unpriced
    from planner.inputs.model import ModelSpec
    from planner.report.plan_file import Names
    from planner.runtimes.imports.sheet import Imported

T = TypeVar("T")
Options = TypeVar("Options", JobOptions, PlanOptions)

DERIVED: Final = ("accumulation", "instances", "ranks")
"""What a file says beside the options: passes of a step, copies of the sharded states, ranks of a node."""

FromOption = Annotated[
    Path | None,
    text_option(
        "FILE", "Launch files to price: of Megatron, DeepSpeed, torchtitan, Accelerate or nanotron.", "--from"
    ),
]


def optional_model(option: str) -> Any:
    """Return the argument MODEL of a command with an option whose file may describe it."""
    return typer.Argument(
        metavar="[MODEL]",
        help="A name from `planner models list`, a config.json or its folder, or a model YAML; "
        f"optional with {option}, if that file describes the model.",
        show_default=False,
        autocompletion=complete.model,
    )


@dataclass(frozen=True)
class AnyJobOptions(JobOptions):
    """What is planned, where the model may come from a file."""

    model: Annotated[str, optional_model("--from")] = ""
    vocab_size: Annotated[
        str | None,
        text_option("N", "Tokens of the vocabulary, where the file of --from gives a shape without it."),
    ] = None


@dataclass(frozen=True)
class Origin:
    """Where options came from."""

    path: Path
    """The file."""
    found: Imported
    """What it says."""
    options: Mapping[str, str]
    """The options taken from it, those left out that the user gave."""

    def notes(self) -> list[str]:
        """Return what was read and what was not understood, one line each."""
        said = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in self.options.items())
        settings = "".join(f", set {change}" for change in self.found.changes)
        lines = [f"{self.path}: read as {self.found.runtime}: {said}{settings}"]
        lines += [f"{self.path}: {note}" for note in self.found.notes]
        if self.found.unknown:
            lines.append(f"{self.path}: not understood, so without effect: {', '.join(self.found.unknown)}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the same for scripts."""
        return {
            "file": str(self.path),
            "runtime": self.found.runtime,
            "options": dict(self.options),
            "set": list(self.found.changes),
            "notes": list(self.found.notes),
            "not_understood": list(self.found.unknown),
        }

    def placed(self, error: InputError) -> InputError:
        """Return faults with the key of the file in the place of an option that the user has not given."""
        keys = {f"--{name.replace('_', '-')}": name for name in self.options}
        return InputError([self._placed(problem, keys) for problem in error.problems])

    def _placed(self, problem: Problem, keys: Mapping[str, str]) -> Problem:
        name = keys.get(problem.where)
        if name is None:
            return problem
        hint = f"{problem.expected}; {problem.where} on the command line goes before the file"
        return replace(problem, where=self.place_of(name), expected=hint)

    def place_of(self, name: str) -> str:
        """Return where the file says an option."""
        return f"{self.path}: {self.found.places.get(name, name)}"


@dataclass(frozen=True)
class FileRequest:
    """What is to be priced: the user's options, completed by a file where one is given."""

    job: JobOptions
    plan: PlanOptions
    """The options."""
    origin: Origin | None = None
    """The file."""
    model: ModelSpec | None = None
    """A model that only the file describes."""

    def read(self, reader: Callable[[JobOptions, PlanOptions], T]) -> T:
        """Return what a reader makes of the options.

        Raises `InputError` with every fault, at its key of the file where it stands there.
        """
        with tempfile.TemporaryDirectory(prefix="planner-") if self.model else nullcontext("") as folder:
            job = self.job
            if self.model is not None:
                path = Path(folder) / "model.yaml"
                path.write_text(model_yaml.model_yaml(self.model), encoding="utf-8")
                job = job.but(model=str(path))
            try:
                return reader(job, self.plan)
            except InputError as error:
                raise (self.origin.placed(error) if self.origin else error) from None

    def notes(self) -> list[str]:
        """Return what is to be told of the file."""
        return self.origin.notes() if self.origin else []

    def answered(self, answer: cost_estimate.Estimate | Unpriced) -> cost_estimate.Estimate | Unpriced:
        """Return a price without the rules that are about files of the planner's own."""
        lifted = self.origin.found.lifted if self.origin else ()
        left = tuple(fault for fault in answer.violations if fault.rule not in lifted)
        if len(left) == len(answer.violations) or not isinstance(answer, cost_estimate.Estimate):
            return answer
        return replace(answer, violations=left, feasible=not left and answer.peak <= answer.capacity)

    def saved_names(self, names: Names, plan: Path, force: bool) -> Names:
        """Return the names for a plan file; a model without a name is written beside it."""
        if self.model is None:
            return names

        path = plan.with_name(f"{plan.stem}.model.yaml")
        write_whole(path, model_yaml.model_yaml(self.model), force, "--save")
        return replace(names, model=str(path))


def asked_of(
    path: Path | None, job: JobOptions, plan: PlanOptions, context: typer.Context | None = None
) -> FileRequest:
    """Return the options completed by a runner's file; what the user gave goes before it.

    Raises `InputError` if the file is wrong, or no model can be told.
    """
    if path is None:
        if not job.model:
            expected = (
                "a name, a config.json or a model YAML; or --from FILE with launch files that describe one"
            )
            raise InputError(Problem("MODEL", "nothing", expected))
        return FileRequest(job, plan)

    from planner.runtimes.imports.dispatch import read_runner_file  # its package loads all runtimes
    from planner.runtimes.libraries.reading.segments import allocated

    reading = Reading()
    said = meant.meant(job.said, reading)
    reading.finish()
    if isinstance(said["gpus"], tuple):
        said["gpus"] = written_spans(said["gpus"])
    job = job.but(**said)
    vocab = _vocabulary(job)
    found = allocated(read_runner_file(path, vocab), path)
    user = {name: text for options in (job, plan) for name, text in _given(options).items()}
    if "tp" in user and "etp" not in user and found.places.get("etp", "") == found.places.get("tp"):
        found = replace(found, options={**found.options, "etp": user["tp"]})  # one key says both
    values = completed({**found.options, **user})
    found, job = from_file_start.started(found, job, values)
    user = {name: text for options in (job, plan) for name, text in _given(options).items()}
    found.checked(set(user) if job.model else set(user) - {"model"})
    named = [field.name for field in fields(job) if field.name in {*found.options, "runtime"}]
    job = from_file_cluster.without_settings(job, named, context)
    job, cluster = from_file_cluster.on_own_cluster(found, job, context)
    model = job.model or found.model_name or ""
    if not model and found.model is None:
        hint = "".join(f" ({note})" for note in found.notes if "MODEL" in note)
        raise InputError(Problem("MODEL", "nothing", f"a model, since {path} describes none{hint}"))
    user = {name: text for options in (job, plan) for name, text in _given(options).items()}
    values = completed({**found.options, **user} | _node(found, job))
    taken = {name: value for name, value in values.items() if name not in user and name not in DERIVED}
    filled = _filled(job, taken)
    filled = filled.but(
        model=model,
        runtime=job.runtime or [found.runtime.partition("@")[0] if job.target_version else found.runtime],
        changes=[*found.changes, *(job.changes or ())] or None,
    )
    own = None if model else found.model
    return FileRequest(filled, _filled(plan, taken), Origin(path, found, cluster | taken), own)


def _vocabulary(job: JobOptions) -> int | None:
    """Return what ``--vocab-size`` says."""
    reading = Reading()
    said = reading.count("--vocab-size", job.said.get("vocab_size"))
    reading.finish()
    return said


def _given(options: JobOptions | PlanOptions) -> dict[str, str]:
    """Return the options that the user has given, as text."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: str(value) for name, value in values.items() if value is not None}


def _filled(options: Options, values: Mapping[str, str]) -> Options:
    """Return a record of options with those of ``values`` that are its own."""
    own: dict[str, Any] = {
        field.name: values[field.name] for field in fields(options) if field.name in values
    }
    return options.but(**own)


def _node(found: Imported, job: JobOptions) -> dict[str, str]:
    """Return the accelerators of a node in use, where a script starts fewer than the cluster's have."""
    ranks = found.options.get("ranks", "")
    if not is_whole(ranks) or len(job.hardware or ()) != 1 or job.gpus_per_node or job.gpus:
        return {}
    try:
        whole = load_hardware.load_hardware((job.hardware or [""])[0], "cluster").pool.gpus_per_node
    except InputError:
        return {}
    return {"gpus_per_node": ranks} if whole % int(ranks) == 0 and int(ranks) < whole else {}


def completed(values: Mapping[str, str]) -> dict[str, str]:
    """Return options with what follows from them: the global batch, the shards, the accelerators.

    Examples
    --------
    >>> whole = completed({"gpus": "16", "tp": "2", "micro_batch": "1", "accumulation": "4"})
    >>> whole["global_batch"]
    '32'
    """
    filled = dict(values)

    def number(name: str, default: int | None = None) -> int | None:
        text = filled.get(name)
        return int(text) if text is not None and is_whole(text) and 0 < int(text) < 10**9 else default

    split = (number("tp", 1) or 1) * (number("pp", 1) or 1) * (number("cp", 1) or 1)
    micro, passes, batch = number("micro_batch"), number("accumulation"), number("global_batch")
    if "gpus" not in filled and micro and passes and batch and batch % (micro * passes) == 0:
        filled["gpus"] = str(batch // (micro * passes) * split)
    gpus = number("gpus")
    dp = number("dp") or (gpus // split if gpus and gpus % split == 0 else None)
    if "global_batch_tokens" in filled:
        filled.pop("global_batch", None)
    elif "global_batch" not in filled and micro and passes and dp:
        filled["global_batch"] = str(micro * passes * dp)
    if "micro_batch" not in filled and batch and passes and dp and batch % (passes * dp) == 0:
        filled["micro_batch"] = str(batch // (passes * dp))
    copies = number("instances")
    if copies and dp and "zero_shards" not in filled:
        filled["zero_shards"] = str(dp * (number("cp", 1) or 1) // copies)
    return filled
