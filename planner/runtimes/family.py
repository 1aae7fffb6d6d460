"""A runtime whole: what it can run, its rules, its behaviour, and the files that start it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from planner.arguments import made_with_care, refuse
from planner.dataclasses import dataclass, field, replace
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.remembered import remembered
from planner.rules import ModelRule, Rule
from planner.runtimes.groups import MESH, Grouping
from planner.runtimes.idle import Idle, left_out
from planner.runtimes.settings import NO_CHANGES, Changes, Settings, Value
from planner.runtimes.traits import Traits
from planner.shown import Short

with deferred():
    from planner.inputs import vision_configs

GROWING_SEGMENTS: Final = {
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}
"""Variables that let segments of PyTorch's allocator grow. Releases before 2.9 know the second name alone;
later ones read it, with a warning, only where the first is unset (``c10/core/AllocatorConfig.cpp``)."""


@made_with_care
@dataclass(frozen=True, repr=False)
class Job(Short):
    """Everything that a plan is for: the model, the cluster, how much of it, and the workload.

    ``idle`` accelerators of the cluster are left over, since no plan can use them too.
    """

    model: ModelSpec
    hardware: HardwareProfile
    gpus: int
    workload: Workload
    idle: int = 0

    def __post_init__(self) -> None:
        """Refuse what is none of these.

        Raises
        ------
        InputError
            With every field of another type, and a number of accelerators below one.
        """
        kinds = {
            "model": ModelSpec,
            "hardware": HardwareProfile,
            "gpus": int,
            "workload": Workload,
            "idle": int,
        }
        refuse(vars(self), kinds, "Job: ")
        if self.gpus < 1:
            raise InputError(Problem("Job: gpus", str(self.gpus), "a whole number from 1", "1"))


@dataclass(frozen=True)
class StepLine:
    r"""Where a runtime's log says how fast it is."""

    pattern: str
    r"""Extended regular expression of ``sed`` for what stands around the number and, as its one group, the
    number itself, such as ``elapsed time per iteration \(ms\): *([0-9.]+)``; no slash."""
    option: str = "--step-time"
    """The option of ``planner mfu`` that takes it."""
    divisor: float = 1.0
    """By what the number is divided for that, such as 1000 for milliseconds."""
    thousands: bool = False
    """Whether a K behind the number means thousands."""


@dataclass(frozen=True)
class Command:
    """What a launcher starts on every node: a program with its arguments, and its environment.

    A smoke run is the same job for twenty steps, on made-up data and without checkpoints. The files of one
    plan start either: a smoke run where the user sets the variable SMOKE. A program that is a script of the
    planner's own finds SMOKE in its environment too, empty in a real run.
    """

    program: tuple[str, ...]
    """Arguments of both kinds of run after the launcher's own, such as ``pretrain_gpt.py --num-layers 32``. A
    part may hold references to the user's variables, ``${NAME}``; a part that is ``${NAME[@]}`` becomes the
    words of the variable, such as the weights and paths of a blend. Everything else is literal."""
    environment: Mapping[str, str]
    """Variables to export."""
    needs: tuple[str, ...] = ()
    """User variables that must be set in either kind of run."""
    production: tuple[str, ...] = ()
    """Arguments of a real run alone, after ``program``: data, tokenizer, checkpoints, steps, schedule."""
    smoke: tuple[str, ...] | None = None
    """What stands in their place in a smoke run, maybe nothing; None where the runtime has no such run."""
    no_smoke: str = "its files always train on the data that DATA_PATH names"
    """Why it has none."""
    closing: tuple[str, ...] = ()
    """Arguments of both kinds of run that must be the last."""
    production_needs: tuple[str, ...] = ()
    """User variables that must be set in a real run alone."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """User variables that may be unset, with their values then; a value may refer to other variables."""
    where_set: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments of a real run that are there only where a variable is set, by its name; none where a script
    of the planner's own reads it. A runtime that knows ``MINUTES`` saves and ends when they are over, and
    when it is told to end; a scheduler with a time limit sets them."""
    step_line: StepLine | None = None
    """Where the log says how fast it is."""
    module: bool = False
    """Whether the program is a Python module (``-m``)."""
    files: Mapping[str, str] | None = None
    """Other files beside the script, name to text; a part of ``program`` that is one of their names is found
    in their folder."""
    notes: tuple[str, ...] = ()
    """What a user should know before starting, for the run card: what the plan does not decide, and whether
    checkpoints can be read under another plan."""
    restarts: bool = False
    """Whether a launcher that can starts the job again after a failure, ``RESTARTS`` times at most."""

    @property
    def real(self) -> tuple[str, ...]:
        """Program and arguments of a real run, without those of variables that may be unset."""
        return (*self.program, *self.production, *self.closing)

    @property
    def variables(self) -> tuple[str, ...]:
        """All user variables that it knows, each once."""
        known = (*self.needs, *self.production_needs, *self.defaults, *self.where_set)
        return tuple(dict.fromkeys((*known, "SMOKE")))


class RuleMaker(Protocol):
    """Makes a runtime's rules for a plan or a batch of plans."""

    def __call__(self, plan: Plan, job: Job, runtime: Runtime, /) -> list[Rule]: ...


def _none_of_its_own(model: ModelSpec) -> Mapping[str, Any]:
    return {}


def _no_rules(plan: Plan, job: Job, runtime: Runtime, /) -> list[Rule]:
    return []


def says_all(model: ModelSpec) -> tuple[str, ...]:
    """Return that files leave nothing of a model unsaid."""
    return ()


def _no_diffusion(plan: Plan, job: Job, runtime: Runtime, /) -> list[Rule]:
    """Return the rule that a runtime trains diffusion transformers, of one that does not."""
    return [
        ModelRule(
            "trains-diffusion",
            False,
            lambda: (f"{job.model.name}, a diffusion transformer", "a language model", "--runtime fsdp"),
        )
    ]


class CommandMaker(Protocol):
    """Makes what starts a legal scalar plan on a release, with the traits that the user changed."""

    def __call__(self, plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES, /) -> Command: ...


class OrderCommandMaker(Protocol):
    """As `CommandMaker`, for a plan whose passes run in an order of their own: a file's text."""

    def __call__(
        self, plan: Plan, job: Job, version: str, order: str, changes: Changes = NO_CHANGES, /
    ) -> Command: ...


def _tower(model: ModelSpec) -> str | None:
    """Return the family of a model's encoder, where it has one that is known."""
    return None if model.encoder is None else vision_configs.vision_family(model.encoder, model.hidden)


@dataclass(frozen=True, repr=False)
class Runtime(Short):
    """One training framework, as the planner sees it.

    Parameters
    ----------
    name, aliases : str, tuple of str
        As on the command line.
    title : str
        As its authors write it.
    versions : tuple of str
        Releases whose files can be written, newest first.
    cite : str
        Where its rules and behaviour were read.
    traits : Traits
        Its behaviour.
    default_zero : int
        ZeRO stage where the user gives none.
    zero_stages, schedules, cp_methods, recomputes, offloads, precisions, methods, optimizers : tuple
        Names of the techniques that it can run; search offers no others.
    own_rules : RuleMaker
        Makes its validity rules beside the structural ones, from what the record says that it can run; none
        of them depends on a setting that a search tries.
    pass_rules : RuleMaker
        Makes those of them that hold or not whatever the ZeRO stage, the shards and the offload: a search
        asks them once for all of these.
    setting_rules : RuleMaker
        Makes those that do: what cannot be switched on beside a plan, over however many ranks its states
        are sharded.
    hybrid_sharding : bool
        Whether zero_shards may be less than dp · cp.
    command : CommandMaker, optional
        What to start for a scalar plan; None where it writes no files.
    own_split : callable, optional
        Layers of each stage from (model, stages) where no plan names them; where it is None, or returns
        None, they are balanced by FLOPs.
    bare_ends : bool
        Whether the first stage of a pipeline may hold the embedding alone, and the last one the loss.
    unwritten : callable
        From a model to what its files cannot say of one that it trains all the same, priced alone; nothing
        of most.
    order_command : OrderCommandMaker, optional
        The same where the passes run in an order made for the plan; None where it takes none.
    grouping : Grouping
        The process groups that it makes.
    settings : mapping
        Values of traits, beside its own, that its files can ask for.
    searched : tuple of str
        Settings that its files can ask for and a search tries, by name.
    one_gradient_buffer : bool
        Whether gradients travel in the dtype in which they are kept: what asks for a narrower one of either
        has both.
    trains_prediction : bool
        Whether its files train a model's extra prediction layers; if not, they are none of what is priced.
    one_dtype : bool
        Whether parameters, gradients and optimizer states have one dtype, that of the master weights.
    release : str
        The release whose traits it has; empty for the newest.
    encoders : tuple of str
        Model types whose encoder its files build, as the library does: whole on every tensor-parallel rank.
    split_encoders : tuple of str
        Those of them whose encoder is split by tensor parallelism, its projectors too, without sequence
        parallelism.
    era : str
        The era of runs whose traits it has; empty where it is priced as its own files run.
    diffusion_methods : tuple of str
        Methods of context parallelism with which it trains diffusion transformers; none where it trains none.
    diffusion_rules : RuleMaker
        Makes all of its rules for these, in place of those for language models.
    diffusion_command : CommandMaker, optional
        What to start for one; None where it writes no files.
    idle : tuple of Idle
        Traits that some plans do not run as they are set.
    behind_saves : {"none", "writes", "copies"}
        What of a checkpoint goes on while training does: nothing, its writing once it is in host memory, or
        its copy to the host too, during the passes of the next step.
    lone_replicas : bool
        Whether it trains replicas at several sites that are jobs of their own (torchft).
    saves : callable, optional
        Adds to a command what makes it save and go on after a failure as asked; None where its files say the
        interval alone.
    model_traits : callable
        Traits that the code of a model's type has and others' has not, by flat name.
    built : callable
        Adds to a model the weights that its code keeps beside its own.
    """

    name: str
    title: str
    versions: tuple[str, ...]
    cite: str
    traits: Traits
    default_zero: int
    zero_stages: tuple[int, ...]
    schedules: tuple[str, ...]
    cp_methods: tuple[str, ...]
    recomputes: tuple[str, ...]
    offloads: tuple[str, ...]
    precisions: tuple[str, ...]
    methods: tuple[str, ...]
    own_rules: RuleMaker
    pass_rules: RuleMaker = _no_rules
    setting_rules: RuleMaker = _no_rules
    optimizers: tuple[str, ...] = ("adamw",)
    hybrid_sharding: bool = False
    command: CommandMaker | None = None
    own_split: Callable[[ModelSpec, int], tuple[int, ...] | None] | None = None
    bare_ends: bool = False
    unwritten: Callable[[ModelSpec], tuple[str, ...]] = says_all
    order_command: OrderCommandMaker | None = None
    grouping: Grouping = MESH
    settings: Settings = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    one_gradient_buffer: bool = False
    trains_prediction: bool = False
    one_dtype: bool = False
    release: str = ""
    encoders: tuple[str, ...] = ()
    split_encoders: tuple[str, ...] = ()
    era: str = ""
    diffusion_methods: tuple[str, ...] = ()
    diffusion_rules: RuleMaker = _no_diffusion
    diffusion_command: CommandMaker | None = None
    idle: tuple[Idle, ...] = ()
    behind_saves: Literal["none", "writes", "copies"] = "none"
    lone_replicas: bool = False
    saves: Callable[[Command, Any], Command] | None = None
    model_traits: Callable[[ModelSpec], Mapping[str, Any]] = _none_of_its_own
    built: Callable[[ModelSpec], ModelSpec] | None = None

    def with_traits(self, **values: Any) -> Runtime:
        """Return it with other values of some traits, by flat name."""
        return replace(self, traits=self.traits.with_values(**values))

    def left_out(self, plan: Plan, job: Job) -> list[Idle]:
        """Return the traits that a plan, or each of a batch, runs with another value than they have.

        A release for which no files are written is priced as its recipes were, whatever they switched on.
        """
        recipe = self.release and self.release not in self.versions
        return [] if recipe else left_out(_concerned(self), plan, job)

    def as_run(self, plan: Plan, job: Job) -> Runtime:
        """Return it with the traits that a plan, or each of a batch, runs."""
        idle = self.left_out(plan, job)
        return _changed(self, tuple((one.trait, one.instead) for one in idle)) if idle else self

    def builds_encoder(self, model: ModelSpec) -> bool:
        """Whether its files build a model's encoder."""
        return _tower(model) in self.encoders

    def splits_encoder(self, model: ModelSpec) -> bool:
        """Whether they split it over tensor-parallel ranks."""
        return _tower(model) in (set(self.encoders) & set(self.split_encoders))

    def for_model(self, model: ModelSpec) -> Runtime:
        """Return it as it trains a model: a diffusion transformer by rules and methods of their own."""
        if model.diffusion is None:
            own = self.model_traits(self._counted(model))
            return self.with_traits(**own) if own else self
        methods = self.diffusion_methods or self.cp_methods
        bare = replace(self, pass_rules=_no_rules, setting_rules=_no_rules, searched=(), cp_methods=methods)
        return replace(bare, own_rules=self.diffusion_rules, command=self.diffusion_command)

    def trained(self, model: ModelSpec) -> ModelSpec:
        """Return the model as its files train it: without extra prediction layers, if they train none."""
        return self._counted(self.built(model) if self.built else model)

    def _counted(self, model: ModelSpec) -> ModelSpec:
        """Return the model without extra prediction layers, where its files train none."""
        kept = self.trains_prediction or model.prediction is None
        return model if kept else model.model_copy(update={"prediction": None})

    def cannot_train(self, job: Job) -> str:
        """Return what keeps it from training the model in any layout, in words; nothing where it can."""
        rules = self.for_model(job.model).rules(Plan(), job)
        return "; ".join(rule.tell()[0] for rule in rules if isinstance(rule, ModelRule) and not rule.holds)

    def rules(self, plan: Plan, job: Job) -> list[Rule]:
        """Return its validity rules for a plan or a batch of plans, beside the structural ones."""
        return self.as_run(plan, job).rules_as_run(plan, job)

    def rules_as_run(self, plan: Plan, job: Job) -> list[Rule]:
        """Return the same, where its traits are those that the plan runs."""
        makers = self.pass_rules, self.own_rules, self.setting_rules
        return [rule for maker in makers for rule in maker(plan, job, self)]


@remembered(most=4096)
def _concerned(runtime: Runtime) -> tuple[Idle, ...]:
    """Return the traits of a runtime that have values which some plans leave out."""
    return tuple(one for one in runtime.idle if one.concerns(runtime.traits.value_of(one.trait)))


@remembered(most=4096)
def _changed(runtime: Runtime, values: tuple[tuple[str, Value], ...]) -> Runtime:
    """Return a runtime with other values of some traits: one and the same for one question."""
    return runtime.with_traits(**dict(values))
