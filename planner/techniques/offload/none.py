"""Nothing leaves the accelerator."""

from planner.techniques.offload.family import Offload

ENTRY = Offload(name="none", cite="arXiv:1910.02054", states="device", down_bytes=0.0, up_bytes=0.0)
