"""The environment on AMD: ROCm's variables in place of those that only CUDA has.

References
----------
.. [1] AMD, Primus fd1eeabb, ``runner/helpers/envs/base_env.sh``: what AMD starts Megatron-LM and torchtitan
   with. Names of devices, network cards and interfaces are found there on each node, and not repeated here.
.. [2] PyTorch 2.13, ``c10/cuda/CUDAAllocatorConfig.h``: the variables that configure the allocator.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planner.inputs.hardware import Accelerator

INSTEAD: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_HIP_ALLOC_CONF",
        "NCCL_NVLS_ENABLE": None,  # reduction in NVLink's switches
    }
)
"""What of CUDA is called otherwise on ROCm, or is not there."""

ALWAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GPU_MAX_HW_QUEUES": "2",  # streams of compute and communication do not wait behind others
        "HSA_NO_SCRATCH_RECLAIM": "1",  # taking scratch memory back ends runs with experts
        "TORCH_NCCL_HIGH_PRIORITY": "1",  # collectives start beside products
    }
)
"""What AMD's own starts set for every model [1]_."""


def on_vendor(variables: Mapping[str, str], accelerator: Accelerator) -> dict[str, str]:
    """Return the environment as the accelerator's vendor has it; on others than AMD it is as given.

    CUDA_DEVICE_MAX_CONNECTIONS stays: AMD sets it too, since Megatron-core asks for it by this name.
    """
    if accelerator.vendor.lower() != "amd":
        return dict(variables)
    known = {there: value for name, value in variables.items() if (there := INSTEAD.get(name, name))}
    return {**known, **ALWAYS}
