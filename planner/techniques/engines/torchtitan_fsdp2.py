"""FSDP2 as torchtitan calls it: the head stays gathered from forward to backward."""

from dataclasses import replace

from planner.techniques.engines import fsdp2

ENTRY = replace(
    fsdp2.ENTRY,
    name="torchtitan-fsdp2",
    cite="torchtitan b5bcd76c: torchtitan/models/llama3/infra/parallelize.py, apply_fsdp",
    keeps_head=True,
    idles_gradients=True,
)
