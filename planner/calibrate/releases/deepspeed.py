"""Releases of DeepSpeed."""

from planner.calibrate.releases.family import Release, Releases

ENTRY = Releases(
    "deepspeed",
    (
        Release("0.19.8", "2026", "as the files written here set it", files="0.19.8"),
        Release(
            "0.5.4",
            "2021",
            "ZeRO-3 that gathers each parameter by itself, under Megatron's models",
            "deepspeed 0.5.4",
            before_hopper=True,
        ),
    ),
    "DeepSpeed, tags",
)
