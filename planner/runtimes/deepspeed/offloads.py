"""Weights and optimizer states on the host or on NVMe, as DeepSpeed's JSON says them, and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import SUB_GROUP, WEIGHT_BUFFERS, Place, read_offload

DEVICES: Final[Mapping[Place, str]] = {"device": "none", "host": "cpu", "disk": "nvme"}
"""DeepSpeed's word for where something rests."""

DISK_PATH: Final = "NVME_PATH"
"""Variable of the environment that names a folder on the node's NVMe; the script puts it into the JSON."""

BUFFERS_OF_STATES: Final = 4
"""Buffers of a tile: master weights, gradients and two moments. [-]"""

WHOLE_GROUP: Final = 1_000_000_000
"""Parameters that are stepped at once where no state is on disk: DeepSpeed's own number. [element]"""


GROUPS_OF_A_SHARE: Final = 50
"""Groups that a rank's shard has where the host steps a share of them: whole ones count, down to 2%. [-]"""


def group_size(offload: str, shard: float) -> int:
    """Return the parameters that are stepped at once, of a rank that has ``shard`` of them. [element]

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/stage3.py``, ``subgroup_to_device``: of n groups
       int((1 - ratio) n) are stepped on the device, none of a shard that is one group.
    """
    choice = read_offload(OFFLOADS, offload)
    if choice.states == "disk":
        return SUB_GROUP
    whole = not choice.optimizer or choice.share >= 1.0
    return WHOLE_GROUP if whole else min(WHOLE_GROUP, math.ceil(shard / GROUPS_OF_A_SHARE))


def offload_section(offload: str, largest: int) -> dict[str, object]:
    """Return the keys of ``zero_optimization`` for an offload; ``largest`` weights must fit a buffer.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/zero/offload_config.py``.
    """
    choice, found = read_offload(OFFLOADS, offload), dict[str, object]()
    states, weights = DEVICES[choice.states], DEVICES[choice.weights]
    if states != "none":
        section: dict[str, object] = {"device": states, "pin_memory": True}
        section |= {"ratio": float(choice.share)} if choice.share < 1.0 else {}
        if states == "nvme":
            section |= {"nvme_path": DISK_PATH, "buffer_count": BUFFERS_OF_STATES}
            section |= {"pipeline_read": True, "pipeline_write": True, "fast_init": False}
        found["offload_optimizer"] = section
    if weights != "none":
        section = {"device": weights, "pin_memory": True}
        if weights == "nvme":
            section |= {"nvme_path": DISK_PATH, "buffer_count": WEIGHT_BUFFERS}
            section |= {"buffer_size": max(SUB_GROUP, largest), "max_in_cpu": 0}
        found["offload_param"] = section
    return found


def aio_section(offload: str) -> dict[str, object]:
    """Return how the disks are read and written: DeepSpeed's numbers for NVMe."""
    if not read_offload(OFFLOADS, offload).disk:
        return {}
    return {
        "aio": {
            "block_size": 1_048_576,
            "queue_depth": 32,
            "intra_op_parallelism": 1,
            "single_submit": False,
            "overlap_events": True,
        }
    }


def offload_named(states: str, weights: str) -> str | None:
    """Return the offload that has states and weights on these of DeepSpeed's devices, if one has."""
    found = (
        name
        for name, choice in OFFLOADS.items()
        if (DEVICES[choice.states], DEVICES[choice.weights]) == (states, weights) and choice.bare
    )
    return next(found, None)
