"""Each node keeps a copy of another's state in its memory; processes start again on a spare and load it."""

from planner.techniques.recovery.family import ENVIRONMENT, WATCHED, Recovery

ENTRY = Recovery(
    name="in-memory",
    cite="arXiv:2310.12670",
    level="memory",
    pause=WATCHED + ENVIRONMENT,
    beside="nvidia-resiliency-ext on Megatron-LM, and a service of copies beside other runtimes",
    aliases=("gemini", "reft"),
)
