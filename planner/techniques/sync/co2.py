"""CO2: local steps, then an asynchronous all-reduce of the parameters beside the next local steps."""

from planner.techniques.sync.family import Penalty, Sync, period_late

ENTRY = Sync(
    name="co2",
    cite="arXiv:2401.16265",
    sends="all parameters after the inner steps, in a ring all-reduce",
    hidden="the next inner steps, all of them",
    timing=period_late,
    penalty=Penalty("unknown", "ViT-B 80.95% against 81.33%; no language model against data parallelism",
                    "arXiv:2401.16265"),
    device_copies=2.0,
)  # fmt: skip
