"""Whether a document has as many ranks as its length needs (context parallelism by length)."""

from planner.techniques.settings.family import Setting, unequal_lengths

ENTRY = Setting(
    name="dynamic_context",
    aliases=("hybrid_context_parallel", "dynamic_cp"),
    about="whether each document is split over as many ranks as its length needs, dealt to all by its work, "
    "in place of every sequence over all ranks of context parallelism",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "core/pipeline_parallel/hybrid_cp_schedule.py; arXiv:2502.21231",
    values={"false": {"context_by_length": False}, "true": {"context_by_length": True}},
    matters=unequal_lengths,
    scanned=("true",),
    everywhere=True,
)
