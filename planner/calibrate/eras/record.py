"""The records of one program's eras, as their file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from planner.calibrate.eras.words import Range, read_range
from planner.inputs.record import Flag, Record

BEFORE_HOPPER: Final = (
    r"[vp]100|k80|\bt4\b|rtx-[23]0|a100|a800|\ba[1346]0g?\b|a6000|mi[1256]0|mi100|mi2[15]0|tpu-v[1-4]|trainium1"
    r"|gaudi$|ascend-910$"
)
"""Regular expression of the accelerators of 2022 and before, by their canonical names: the set is closed."""
SINCE_HOPPER: Final = rf"^(?!.*(?:{BEFORE_HOPPER}))"
"""Of all others."""

Settings = Mapping[str, object]
Words = tuple[str, ...]


class NamedEra(Record):
    """Words, versions and years of a text, any of which it may have."""

    words: Words = ()
    """See `planner.calibrate.eras.words`."""
    versions: tuple[str, ...] = ()
    years: tuple[str, ...] = ()
    """``A`` with all that begins so, ``A to B`` with all that begins as B, or ``A or later``."""

    @field_validator("versions", "years", mode="before")
    @classmethod
    def _ranges(cls, raw: Any) -> tuple[str, ...]:
        texts = tuple(str(text) for text in (raw if isinstance(raw, list | tuple) else [raw]))
        for text in texts:
            read_range(text)
        return texts

    @property
    def version_ranges(self) -> tuple[Range, ...]:
        """Lowest and highest of each range of versions."""
        return tuple(map(read_range, self.versions))

    @property
    def year_ranges(self) -> tuple[Range, ...]:
        """Lowest and highest of each range of years."""
        return tuple(map(read_range, self.years))


class Where(NamedEra):
    """Conditions on a run beside its program, all of which must hold.

    Parameters
    ----------
    words, versions, years : tuple of str
        What the text has besides: one of the words, a version and a year in one of the ranges.
    alone : bool
        The text is the program's name and nothing more.
    accelerators : tuple of str
        Patterns of names, such as ``*b200*``.
    generation : {"before-hopper", "since-hopper"}
        Of the accelerator.
    flash_attention : False
        The run states none.
    sharded : True
        Parameters are sharded: ZeRO-3, or sharding of several levels.
    unless : NamedEra
        What the text must not have.
    """

    alone: Literal[True] | None = None
    accelerators: Words = ()
    generation: Literal["before-hopper", "since-hopper"] | None = None
    flash_attention: Literal[False] | None = None
    sharded: Literal[True] | None = None
    unless: NamedEra = NamedEra()

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """How particular it is: the number of conditions; of as many a version, then a year, is more."""
        names = self.model_fields_set - {"unless"}
        return len(names), bool(self.versions), bool(self.years)


class Blanks(Record):
    """What empty columns of a run mean in an era."""

    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    zero: Literal["0", "1", "2", "3"] = "1"
    recompute: str = "none"
    """What a blank column means."""
    sequence_parallel: Flag = True
    """Whether sequence parallelism is on with tensor parallelism where the column is blank."""
    sequence_in: Literal["all", "pipelines"] = "all"
    """Where that is so: in ``all`` jobs, or in those of ``pipelines`` on several nodes alone."""
    sequence_to_fit: Flag = False
    """Whether it is on in other jobs too, where the column is blank and the run would not fit without."""
    pipeline_zero: Literal["", "0", "1", "2", "3"] = ""
    """What a blank column of sharding means under pipeline parallelism, where that is something else."""
    single_layers: Literal["never", "stated", "usual"] = "never"
    """When a blank vpp under pipeline parallelism means as many chunks as a stage has layers: where the row
    says that it interleaves, or where it names no other schedule."""
    counter: str = ""
    """What a blank column of the counter of memory means, where that is not the device in use."""
    fine_tuning: Mapping[Literal["lora_targets", "document_tokens"], str | int] = Field(default_factory=dict)
    """What blank columns of its fine-tuning runs mean: ``document_tokens``, and ``lora_targets`` where
    adapters are trained."""
    states: Literal["usual", "bf16"] = "usual"
    """Weights and optimizer states: those of mixed precision, or in bf16 alone."""
    lacks: tuple[Literal["tp", "pp"], ...] = ()
    """Degrees that its program does not have: 1 where they are blank."""


class Era(Record):
    """One framework at one time."""

    name: str
    """Short; shown with each priced row."""
    runtime: str
    """Name of the runtime that prices it."""
    about: str
    """What it stands for, and where that is said."""
    where: tuple[Where, ...] = (Where(),)
    """When it is this era of its program, in any of these cases; without one it is the usual one."""
    traits: Settings = Field(default_factory=dict)
    """Traits in which it differs from the runtime's own, but for those that its runs fit
    (``fitted/stages.yaml``)."""
    half_traits: Settings = Field(default_factory=dict)
    """Further traits when training in fp16."""
    sequence_traits: Settings = Field(default_factory=dict)
    """Further traits with sequence parallelism, where that is younger than the rest of the era."""
    hopper_traits: Settings = Field(default_factory=dict)
    """Further traits on Hopper and later, which needed later releases."""
    blanks: Blanks = Blanks()
    """What empty columns mean."""
    no_flash: Literal["fused-softmax", "unfused"] = "fused-softmax"
    """Attention kernel of a run that says it used no flash attention."""
    selective: str = "selective"
    """What selective recompute means to its users where the row names no modules."""
    stage_cut: Literal["even", "parameters", "shares"] = "even"
    """How layers are dealt to pipeline stages: evenly; by parameters, embedding and head weighed in; or as
    nanotron does, a stage that has its share of the cost to the byte closing there."""
    compiles_loss: Flag = True
    """Whether a run that says it is compiled compiles its loss too."""
    measured: Flag = True
    """Whether published runs of it were priced; without any, its rows have no error band."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether it is the same record: an era is remembered by what was made of it."""
        return self is other

    @field_validator("where", mode="before")
    @classmethod
    def _one_or_several(cls, raw: Any) -> Any:
        return [raw] if isinstance(raw, dict) else raw


class EraProgram(Record):
    """A program that run tables name, and its eras: one file."""

    name: str
    """That of the file."""
    words: Words = Field(min_length=1)
    """What it is called."""
    over: tuple[str, ...] = ()
    """Programs that its texts may name too, since it is made of them or grew out of them."""
    eras: tuple[Era, ...] = Field(min_length=1)
    """Its times."""
