"""The pipeline and the messages between its stages."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.pipelines import PIPELINE_CODES


@dataclass(frozen=True)
class PipelineTraits:
    """The pipeline and the messages between its stages."""

    code: str = trait(
        "megatron",
        "Whose code runs a pipeline's stages: whether messages between them go whole or ``scattered``, "
        "occupy both sides or run ``beside-passes``, and whether a stage's step ``ends-apart`` from the "
        "others'.",
        name="pipeline_code",
        words=PIPELINE_CODES,
    )
    slots: float = trait(
        0.0,
        "Micro-batches that each stage but the last has room for, over the stages of the pipeline, where "
        "memory is planned before the job starts; 0 where it is taken as micro-batches come.",
        unit="-",
        name="pipeline_slots",
    )
    stages_inside: bool = trait(
        False,
        "Whether the ranks of a pipeline are neighbours and its replicas lie apart, not the other way round.",
    )
    whole_in_flight: float = trait(
        0.0,
        "Tensors of the hidden size, undivided by tp, that each micro-batch in flight keeps on a stage of a "
        "pipeline with sequence parallelism.",
        unit="-",
    )
    exposed: float = trait(
        1.0,
        "Share of messages between stages that no compute hides.",
        unit="-",
        name="pp_exposed",
        up_to=1.0,
    )
    plain_exposed: float = trait(
        0.0,
        "The least share of a message between stages that nothing hides where a rank has a single chunk.",
        unit="-",
        name="plain_pp_exposed",
        up_to=1.0,
    )
