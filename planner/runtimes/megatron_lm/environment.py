"""Environment variables without which Megatron-core refuses, or runs otherwise than priced."""

from __future__ import annotations

from typing import Final

from planner.plan import Plan
from planner.runtimes.family import GROWING_SEGMENTS, Job
from planner.runtimes.rocm import on_vendor

HOPPER: Final = 9.0
"""Compute capability from which several devices' memory is written at once, and DeepEP leaves a node."""

BLACKWELL: Final = 10.0
"""Compute capability from which on the order of kernels no longer hangs on one hardware queue."""


def environment(plan: Plan, job: Job) -> dict[str, str]:
    """Return the variables to export for a scalar plan.

    Before Blackwell tensor and context parallelism need one hardware queue, so that a collective starts
    before the product that hides it; Megatron-FSDP needs several. Growing segments keep fragmentation at
    what the estimate reserves, and without buffers for in-switch reduction the communicators stay small.
    Transformer Engine on ROCm has mxfp8 where it is asked for (030b7921, ``pytorch/quantization.py``).
    """
    variables = {
        "NCCL_NVLS_ENABLE": "0",
        **GROWING_SEGMENTS,
        "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    }
    device = job.hardware.pool.accelerator
    capability = device.compute_capability
    before_blackwell = capability is None or capability < BLACKWELL
    if plan.zero >= 2:
        variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    elif (plan.tp > 1 or plan.cp > 1) and before_blackwell:
        variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if job.workload.precision == "mxfp8" and device.vendor.lower() == "amd":
        variables["NVTE_ROCM_ENABLE_MXFP8"] = "1"
    return dict(sorted(on_vendor(variables, device).items()))
