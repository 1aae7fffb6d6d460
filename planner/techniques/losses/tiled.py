"""DeepSpeed's: tile after tile of a long sequence (ALST), each run forward again in backward."""

from dataclasses import replace

from planner.techniques.losses import eager

ENTRY = replace(
    eager.ENTRY,
    name="tiled",
    cite="arXiv:2506.13996, sec. 3.1; DeepSpeed 0.19.8: runtime/sequence_parallel/ulysses_sp.py, "
    "SequenceTiledCompute",
    reruns=True,
    gradient_bytes=2.0,
)
