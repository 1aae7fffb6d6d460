"""The record of one era of a training framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

BEFORE_HOPPER: Final = (
    r"[vp]100|k80|\bt4\b|rtx-[23]0|a100|a800|\ba[1346]0g?\b|a6000|mi[1256]0|mi100|mi2[15]0|tpu-v[1-4]|trainium1"
    r"|gaudi$|ascend-910$"
)
"""Regular expression of the accelerators of 2022 and before, by their canonical names: the set is closed."""
SINCE_HOPPER: Final = rf"^(?!.*(?:{BEFORE_HOPPER}))"
"""Of all others."""

Settings = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Era:
    """One framework at one time.

    Parameters
    ----------
    name : str
        Short; shown with each priced row.
    pattern : str
        Regular expression searched in the framework text, in lower case.
    runtime : str
        Name of the runtime that prices it.
    about : str
        What it stands for, and where that is said.
    traits : mapping
        Traits in which it differs from the runtime's own, but for those that its runs fit
        (`planner.calibrate.stages`).
    half_traits : mapping
        Further traits when training in fp16.
    sequence_traits : mapping
        Further traits with sequence parallelism, where that is younger than the rest of the era.
    hopper_traits : mapping
        Further traits on Hopper and later, which needed later releases.
    precision, zero, recompute : str, str, str
        What a blank column means.
    sequence_parallel : bool
        Whether sequence parallelism is on with tensor parallelism where the column is blank.
    sequence_in : {"all", "pipelines"}
        Where that is so: in ``all`` jobs, or in those of ``pipelines`` on several nodes alone.
    pipeline_zero : str
        What a blank column of sharding means under pipeline parallelism, where that is something else.
    single_layers : {"never", "stated", "usual"}
        When a blank vpp under pipeline parallelism means as many chunks as a stage has layers: where the row
        says that it interleaves, or where it names no other schedule.
    no_flash : str
        Attention kernel of a run that says it used no flash attention.
    selective : str
        What selective recompute means to its users where the row names no modules.
    counter : str
        What a blank column of the counter of memory means, where that is not the device in use.
    stage_cut : {"even", "parameters", "shares"}
        How layers are dealt to pipeline stages: evenly; by parameters, embedding and head weighed in; or as
        nanotron does, a stage that has its share of the cost to the byte closing there.
    old_only : bool
        Holds only before Hopper and where no flash attention is stated.
    gpus : str
        Regular expression of the accelerators that it holds on.
    zero3_only : bool
        Holds only where parameters are sharded: another engine than the framework's usual one.
    fine_tuning : mapping
        What blank columns of its fine-tuning runs mean: ``document_tokens``, and ``lora_targets`` where
        adapters are trained.
    compiles_loss : bool
        Whether a run that says it is compiled compiles its loss too.
    lacks : tuple of {"tp", "pp"}
        Degrees that its program does not have: 1 where they are blank.
    measured : bool
        Whether published runs of it were priced; without any, its rows have no error band.
    """

    name: str
    pattern: str
    runtime: str
    about: str
    traits: Settings = field(default_factory=dict)
    half_traits: Settings = field(default_factory=dict)
    sequence_traits: Settings = field(default_factory=dict)
    hopper_traits: Settings = field(default_factory=dict)
    precision: str = "bf16"
    zero: str = "1"
    recompute: str = "none"
    sequence_parallel: bool = True
    sequence_in: Literal["all", "pipelines"] = "all"
    pipeline_zero: str = ""
    single_layers: Literal["never", "stated", "usual"] = "never"
    no_flash: str = "fused-softmax"
    selective: str = "selective"
    counter: str = ""
    stage_cut: Literal["even", "parameters", "shares"] = "even"
    old_only: bool = False
    gpus: str = ""
    zero3_only: bool = False
    fine_tuning: Settings = field(default_factory=dict)
    compiles_loss: bool = True
    lacks: tuple[Literal["tp", "pp"], ...] = ()
    measured: bool = True
