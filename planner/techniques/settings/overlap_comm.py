"""Whether ZeRO's reductions and gathers run beside compute."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="overlap_comm",
    about="whether gradients are reduced, and sharded weights gathered, beside compute: below ZeRO-3 a "
    "second flat bucket fills while the first is reduced",
    cite="DeepSpeed 0.19.8, runtime/zero/config.py, overlap_comm, and runtime/zero/stage_1_and_2.py, "
    "setup_buckets",
    values={
        "false": {"dp_exposed": 1.0, "flat_buckets": 1.0},
        "true": {"dp_exposed": 0.5, "flat_buckets": 2.0},
    },
)
