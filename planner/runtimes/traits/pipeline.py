"""The pipeline and the messages between its stages."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class PipelineTraits:
    """The pipeline and the messages between its stages."""

    slots: float = trait(
        0.0,
        "Micro-batches that each stage but the last has room for, over the stages of the pipeline, where "
        "memory is planned before the job starts; 0 where it is taken as micro-batches come.",
        unit="-",
        name="pipeline_slots",
    )
    stages_end_apart: bool = trait(
        False,
        "Whether a stage goes on to its next step when its own passes are done: the optimizer validates "
        "later.",
    )
    stages_inside: bool = trait(
        False,
        "Whether the ranks of a pipeline are neighbours and its replicas lie apart, not the other way round.",
    )
    p2p_occupies: bool = trait(
        True,
        "Whether a message between stages occupies its sender and receiver.",
    )
    scattered_messages: bool = trait(
        False,
        "Whether tensor-parallel ranks that hold a message between stages whole send a part each, and gather "
        "it on arrival; with sequence parallelism they hold parts anyway.",
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
