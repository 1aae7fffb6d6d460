"""FSDP2 as torchtitan calls it: the head stays gathered from forward to backward."""

from planner.dataclasses import replace
from planner.techniques.engines import fsdp2

ENTRY = replace(
    fsdp2.ENTRY,
    name="torchtitan-fsdp2",
    cite="torchtitan b5bcd76c: models/llama3/parallelize.py, parallelize_llama, which wraps whatever the "
    "degree, for its dtypes; distributed/fsdp.py, apply_fsdp_to_decoder",
    keeps_head=True,
    idles_gradients=True,
    wraps_whole=True,
    gathers_encoder=True,
    autocasts=False,
)
