"""The doubt about adapters whose frozen base rests in host memory."""

from __future__ import annotations

from typing import Final

from planner.cost.estimate import Estimate
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

PRINTED_OVER_PRICED: Final = 1.6
"""Memory of the one run that is printed over its price: 19.6 GB for 12.4. [-]

References
----------
.. [1] Hugging Face, PEFT 018ca9d6, ``docs/source/accelerate/fsdp.md``, "Memory usage": QLoRA of Llama 2 70B,
   two sequences of 2,048 tokens, FSDP 1 on two devices with the base on the host.
"""


def unproven_base(answer: Estimate) -> list[str]:
    """Say how far off the memory may be of adapters beside a base on the host, as a clause."""
    hosted = read_offload(OFFLOADS, answer.plan.offload).fetches
    if not hosted or METHODS[answer.job.workload.method].trains_base:
        return []
    return [
        "the memory of adapters beside a base on the host (PEFT's own run took "
        f"{PRINTED_OVER_PRICED:g} times its price, under FSDP 1)"
    ]
