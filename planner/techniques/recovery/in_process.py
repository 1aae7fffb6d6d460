"""Processes stay where software fails: training begins anew in them, from the last checkpoint."""

from planner.techniques.recovery.family import WATCHED, Recovery

BEGUN = 30.0
"""From the soft to the hard timeout after which a stuck rank is ended (``--inprocess-hard-timeout`` less
``--inprocess-soft-timeout``); building communicators anew is taken to fit into it, an estimate. [s]"""

SOFTWARE = (54 + 7) / 419
"""Share of failures that leave all processes able to go on: software bugs and stuck collectives among Llama
3's 419 (arXiv:2407.21783, table 5). The others end a process or a node, and the job is started anew. [-]"""

ENTRY = Recovery(
    name="in-process",
    cite="https://github.com/NVIDIA/nvidia-resiliency-ext",
    level="storage",
    pause=WATCHED + BEGUN,
    cures=lambda held: SOFTWARE,
    runtimes=("megatron-lm", "megatron-bridge"),
    beside="nvidia-resiliency-ext",
    aliases=("inprocess", "nvrx"),
)
